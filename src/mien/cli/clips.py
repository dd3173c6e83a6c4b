"""Options of ``mien swap`` for clips, and what is said of them while and after they are made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mien.errors import InvalidOption, OptionsConflict

if TYPE_CHECKING:
    from mien.cli.casting import Casting
    from mien.cli.console import Progress
    from mien.pipeline import Cast
    from mien.plan import Job
    from mien.swapper import Swapper
    from mien.video import VideoProgress, VideoReport

CLIPS = "Clips"
LONGEST = 16
"""Letters of a clip's name in a line that says how far it is."""

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Begin here: seconds, mm:ss, or hh:mm:ss.fff.",
        show_default="the beginning",
        rich_help_panel=CLIPS,
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="End here, counted from the clip's beginning.",
        show_default="the end",
        rich_help_panel=CLIPS,
    ),
]
Codec = Annotated[
    Literal["h264", "hevc", "av1", "vp9", "vp8", "prores", "ffv1", "mjpeg"] | None,
    typer.Option(help="Codec of the pictures.", show_default="the clip's", rich_help_panel=CLIPS),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="How much time the encoder takes, in its own words: ultrafast … placebo, 0 … 13.",
        show_default="the encoder's",
        rich_help_panel=CLIPS,
    ),
]
OnBadFrame = Annotated[
    Literal["hold", "fade", "leave"] | None,
    typer.Option(
        help="When a face is covered, turned away or half outside: hold the last good one for a "
        "moment, fade out, or leave it as it is.",
        show_default="fade",
        rich_help_panel=CLIPS,
    ),
]
NoSmooth = Annotated[
    bool,
    typer.Option("--no-smooth", help="Do not steady the faces.", rich_help_panel=CLIPS),
]
Sdr = Annotated[
    bool,
    typer.Option("--sdr", help="Bring HDR to an ordinary screen.", rich_help_panel=CLIPS),
]
Decoder = Annotated[
    Literal["none", "auto", "cuda", "videotoolbox", "d3d11va", "vaapi", "qsv"] | None,
    typer.Option(
        "--decoder",
        help="Hardware that decodes where it can; auto looks for some.",
        show_default="none",
        rich_help_panel=CLIPS,
    ),
]
Encoder = Annotated[
    Literal["none", "auto", "videotoolbox", "nvenc", "qsv", "amf"] | None,
    typer.Option(
        "--encoder",
        help="Hardware that encodes where it does all that is asked; auto looks for some.",
        show_default="none",
        rich_help_panel=CLIPS,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Keep finished pieces until the output is whole, and take up those that an "
        "interrupted run with this option left.",
        rich_help_panel=CLIPS,
    ),
]
PreviewTo = Annotated[
    str | None,
    typer.Option(
        "--preview",
        metavar="PNG",
        help="Also write some frames, before above after. With several clips a folder, or a name "
        "with fields.",
        rich_help_panel=CLIPS,
    ),
]


@dataclass(frozen=True, slots=True)
class ClipOptions:
    """The options for clips as they were given; called with a job, they are carried out."""

    start: str | None = None
    end: str | None = None
    codec: str | None = None
    preset: str | None = None
    on_bad_frame: str | None = None
    no_smooth: bool = False
    sdr: bool = False
    decoder: str | None = None
    encoder: str | None = None
    resume: bool = False
    preview: str | None = None
    quality: int | None = None
    """Of ``--quality``, which pictures have too."""

    def check(self, jobs: list[Job], pictures: dict[str, object]) -> None:
        """Raise InvalidOption or OptionsConflict for options that mean nothing here.

        ``pictures`` are the options that only pictures have, by name.
        """
        from mien.video import parse_time

        clips = sum(job.clip for job in jobs)
        if not clips:
            for each in fields(self):
                value = getattr(self, each.name)
                if each.name != "quality" and value not in (None, False):
                    raise InvalidOption(
                        _option(each.name), value, "not used: it is for clips, and none is here"
                    )
        if clips == len(jobs):
            for name, value in pictures.items():
                if value not in (None, False):
                    more = "; for clips there is --preview" if name != "subsampling" else ""
                    raise InvalidOption(
                        name, value, f"not used: it is for pictures, and none is here{more}"
                    )
        start, end = parse_time("from", self.start), parse_time("to", self.end)
        if start is not None and end is not None and end <= start:
            raise OptionsConflict("from", "to", "the end is to be after the beginning")
        if end == 0:
            raise InvalidOption("to", self.end, "a time after the beginning")

    def __call__(
        self, swapper: Swapper, job: Job, cast: Cast, *, strength: float, progress: Progress
    ) -> VideoReport:
        """Make a clip."""
        from mien.media.clip import ClipSettings
        from mien.pipeline import Policy
        from mien.video import work_folder

        settings: Any = {
            "codec": self.codec,
            "preset": self.preset,
            "encoder": self.encoder or "none",
        }
        policy: Any = self.on_bad_frame or "fade"
        decoder: Any = self.decoder or "none"

        name = job.target.name
        name = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"

        def tell(state: VideoProgress) -> None:
            progress(f"{name}: {state}")

        try:
            return swapper.swap_video(
                job.target,
                cast,
                output=job.output,
                strength=strength,
                policy=Policy(policy),
                smooth=not self.no_smooth,
                start=self.start,
                end=self.end,
                settings=ClipSettings(**settings),
                quality=self.quality,
                sdr=self.sdr,
                hardware=decoder,
                resume=self.resume,
                preview=job.preview,
                compare=job.compare,
                progress=tell,
            )
        except InvalidOption as error:
            raise InvalidOption(_option(error.option), error.value, error.allowed) from None
        except KeyboardInterrupt:
            if self.resume:
                files = (job.output, job.compare)
                folders = " and ".join(str(work_folder(path)) for path in files if path is not None)
                where = f"finished pieces are kept in {folders}"
                print(f"mien: {where}; the same command goes on from there.", file=sys.stderr)
            raise


def _option(name: str) -> str:
    """Return what the command line calls an option of Swapper.swap_video."""
    return {"start": "from", "end": "to"}.get(name, name).replace("_", "-")


def say_clip(job: Job, report: dict[str, Any], casting: Casting, *, quiet: bool) -> None:
    """Say what became of one clip."""
    warn: Callable[[str], None] = lambda text: print(f"mien: {text}", file=sys.stderr)  # noqa: E731
    written, swapped = report["written"], report["swapped_frames"]
    if not quiet:
        how = f"{swapped} of {report['frames']} frames swapped"
        took = f"in {report['seconds']:.1f} s ({report['frames_per_second']:.1f} a second)"
        consents = ", ".join(report["consents"])
        print(f"{job.output}: {how} {took}" + (f"; consent {consents}" if consents else ""))
        if written["manifest_beside"]:
            print(f"  {written['manifest_beside']}: its manifest, as the format holds none.")
        for note in written["notes"]:
            print(f"  {note}")
        for track in written["tracks"]:
            if track["fate"] != "copied":
                print(f"  {_track(track)}")
        reasons: dict[str, int] = {}
        for event in report["events"]:
            reasons[event["reason"]] = reasons.get(event["reason"], 0) + event["frames"]
        if reasons:
            counts = ", ".join(f"{reason} {frames}" for reason, frames in sorted(reasons.items()))
            print(f"  Frames with a face that could not be shown well: {counts}.")
    if not swapped:
        how = "it was copied as it is" if report["copied"] else "nothing in it was swapped"
        near = report["nearest"]
        why = (
            ""
            if near is None
            else (
                f" (the nearest face has a distance of {near['distance']:.2f}, and at most "
                f"{near['limit']:.2f} is one person)"
            )
        )
        warn(f"nobody who was meant was found in {job.target}{why}; {how}.")
    for lost in report["lost"]:
        when = "" if lost["start"] is None else f" at {lost['start']:.3f} s"
        count = "some frames" if lost["frames"] is None else f"{lost['frames']} frame(s)"
        warn(f"{job.target}: {count} {lost['kind']}{when}: {lost['why']}.")
    rejected = sum(e["frames"] for e in report["events"] if e["reason"] == "rejected")
    if rejected:
        warn(f"{job.target}: the network's output was rejected in {rejected} frame(s).")
    for number in report["missing"] if swapped else ():
        warn(f"{casting.absent(number)} is not in {job.target}")


def _track(track: dict[str, Any]) -> str:
    into = f" as {track['into']}" if track["into"] else ""
    why = f": {track['why']}" if track["why"] else ""
    name = f"Track {track['index']} ({track['kind']}, {track['codec']})"
    return f"{name} was {track['fate']}{into}{why}."
