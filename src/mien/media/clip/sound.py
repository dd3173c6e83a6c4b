"""Sound that the output cannot hold as it is: decoded, and encoded again."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
from av.audio.fifo import AudioFifo
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.error import FFmpegError

RATES = {"libopus": (48_000,), "libmp3lame": (48_000, 44_100, 32_000)}
"""Rates that an encoder takes; others take any that sound comes in."""

LAYOUTS = {1: "mono", 2: "stereo", 3: "2.1", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
"""What channels are taken for where a file only counts them."""

BITRATE = 96_000
"""Bits a second for each channel: none of the encoders needs more to be transparent."""


class Reencoder:
    """Encodes the sound of one track anew, from a given time on to another.

    ``from_zero`` leaves out, to the sample, what lies before zero in the output.
    """

    def __init__(
        self,
        source: AudioStream,
        container: OutputContainer,
        encoder: str,
        *,
        start: Fraction | None,
        end: Fraction | None,
        origin: Fraction,
        from_zero: bool,
    ) -> None:
        self._source, self._from_zero = source, from_zero
        self._start, self._end, self._origin = start, end, origin
        allowed = RATES.get(encoder, (source.rate,))
        rate = source.rate if source.rate in allowed else allowed[0]
        stream = container.add_stream(encoder, rate=rate)
        assert isinstance(stream, AudioStream)
        self.stream = stream
        channels = source.layout.nb_channels
        # a file may only count its channels, which no encoder is content with
        self.stream.layout = LAYOUTS.get(channels, source.layout.name)
        if "channels" not in source.layout.name:
            self.stream.layout = source.layout.name
        if encoder == "libmp3lame" and channels > 2:
            self.stream.layout, channels = "stereo", 2
        self.stream.bit_rate = BITRATE * channels
        self.stream.time_base = Fraction(1, rate)
        context = self.stream.codec_context
        self._resampler = AudioResampler(context.format, context.layout, rate)
        self._fifo = AudioFifo()
        self._written: int | None = None

    def packets(self, packet: av.Packet[Any] | None) -> Iterator[av.Packet[Any]]:
        """Yield what comes of one packet of the input; of None, what is left.

        Packets that do not decode are silent.
        """
        try:
            frames = self._source.decode(packet)
        except (FFmpegError, ValueError, EOFError):
            frames = []
        for frame in frames:
            yield from self._encoded(frame)
        if packet is None:
            for left in self._resampler.resample(None):
                self._take(left)
            if self._fifo.samples and (last := self._fifo.read(0, partial=True)) is not None:
                yield from self.stream.encode(self._timed(last))
            yield from self.stream.encode(None)

    def _encoded(self, frame: av.AudioFrame) -> Iterator[av.Packet[Any]]:
        if frame.pts is None or frame.time_base is None:
            return
        time = frame.pts * frame.time_base
        after = time + Fraction(frame.samples, frame.sample_rate)
        if self._start is not None and after <= self._start:
            return
        if self._end is not None and time >= self._end:
            return
        for resampled in self._resampler.resample(frame):
            self._take(resampled)
        size = self.stream.codec_context.frame_size or 1024
        while (chunk := self._fifo.read(size)) is not None:
            yield from self.stream.encode(self._timed(chunk))

    def _take(self, frame: av.AudioFrame) -> None:
        if self._written is None:
            assert frame.pts is not None
            assert frame.time_base is not None
            time = frame.pts * frame.time_base - self._origin
            self._written = round(time * self.stream.rate)
        frame.pts = None
        self._fifo.write(frame)
        if self._from_zero and self._written < 0:
            left_out = min(-self._written, self._fifo.samples)
            self._fifo.read(left_out)
            self._written += left_out

    def _timed(self, frame: av.AudioFrame) -> av.AudioFrame:
        assert self._written is not None
        frame.pts, frame.time_base = self._written, Fraction(1, self.stream.rate)
        self._written += frame.samples
        return frame
