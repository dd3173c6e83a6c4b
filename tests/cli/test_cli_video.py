"""``mien swap`` with clips: by content, among pictures, refused, in part, and early ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import av
import pytest
from conftest import CONSENT
from filmed import along, film, head, metadata, packets, planes
from pictures import landscape, names
from PIL import Image

from mien.media.kinds import kind_of


@pytest.fixture(scope="module")
def clips(portraits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    ben = head(portraits, "ben", along(120, 120, 60))
    return {
        "ben": film(folder / "ben.mp4", [ben], frames=8),
        "nobody": film(folder / "nobody.mp4", [], frames=8),
        "long": film(folder / "long.mkv", [ben], frames=25, codec="ffv1"),
    }


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def swap(mien_, loaded, people, here):
    """Run ``mien swap`` with dev's face, in an empty folder."""

    def command(*arguments):
        return mien_("swap", people["dev"], *arguments, "--consent", CONSENT)

    return command


def frames(path):
    return len(planes(path))


def test_a_clip_is_swapped(swap, clips, here):
    code, printed, errors = swap(clips["ben"], "-o", "out.mp4")
    assert (code, errors) == (0, "")
    assert printed.startswith("out.mp4: 8 of 8 frames swapped in ")
    assert "consent c-" in printed
    assert frames("out.mp4") == 8
    assert packets("out.mp4", "audio") == packets(clips["ben"], "audio")
    assert metadata("out.mp4")["comment"].startswith("Synthetic:")
    assert names(here) == ["out.mp4"]


@pytest.mark.parametrize("name", ["日本 語.mp4", "two words 🎬.mp4", "-dash.mp4", "a%20b{c}.mp4"])
def test_any_name_is_taken(mien_, loaded, people, clips, here, name):
    shutil.copy(clips["ben"], here / name)
    out = f"out {name}".replace("{", "(").replace("}", ")")
    options = ("--to", "0.12", "-o", out, "--consent", CONSENT)
    code, _, errors = mien_("swap", *options, "--", people["dev"], name)
    assert (code, errors) == (0, "")
    assert frames(out) == 3


def test_what_is_in_a_file_counts_and_not_its_name(swap, clips, people, here):
    shutil.copy(clips["ben"], here / "clip.jpg")
    shutil.copy(people["ben"], here / "picture.mp4")
    code, _, errors = swap("clip.jpg", "-o", "out.mp4", "--to", "0.12")
    assert (code, errors) == (0, "")
    code, _, errors = swap("picture.mp4", "-o", "out.png")
    assert (code, errors) == (0, "")
    assert frames("out.mp4") == 3
    with Image.open("out.png") as image:
        image.load()


def test_clips_and_pictures_of_a_folder_go_together(swap, clips, people, here):
    (here / "in" / "below").mkdir(parents=True)
    shutil.copy(clips["ben"], here / "in" / "b.mp4")
    shutil.copy(clips["long"], here / "in" / "below" / "c.mkv")
    shutil.copy(people["ben"], here / "in" / "a.png")
    (here / "in" / "code.ts").write_text("const one = 1;")
    code, printed, errors = swap("in", "-o", "out/", "--to", "0.12")
    assert (code, errors) == (0, "")
    assert "3 written, 0 skipped, 0 failed" in printed
    assert names(here / "out") == ["a.png", "b.mp4", "below"]
    assert frames("out/b.mp4") == frames("out/below/c.mkv") == 3
    code, printed, _ = swap("in", "-o", "out/", "--skip-existing")
    assert "0 written, 3 skipped, 0 failed" in printed
    code, printed, _ = swap("in/*", "-o", "named/{index}-{target}{suffix}", "--to", "0.12")
    assert code == 5  # the program is no picture
    assert names(here / "named") == ["1-a.png", "2-b.mp4"]


def test_one_that_fails_does_not_stop_the_others(swap, clips, here):
    (here / "bad.mp4").write_bytes(os.urandom(3000))
    code, printed, errors = swap("bad.mp4", clips["ben"], "-o", "out/", "--json", "--to", "0.12")
    report = json.loads(printed)
    assert (code, report["exit"]) == (5, 5)
    assert report["pictures"][0]["error"]["kind"] == "ClipUnreadable"
    assert report["pictures"][1]["kind"] == "clip"
    assert report["pictures"][1]["swapped_frames"] == 3
    assert names(here / "out") == ["ben.mp4"]
    code, printed, errors = swap("bad.mp4", "-o", "out.mp4")
    assert (code, printed) == (1, "")
    assert "bad.mp4 cannot be read" in errors
    assert names(here) == ["bad.mp4", "out"]


def test_nobody_in_it_means_a_copy_and_three(swap, clips, here):
    code, printed, errors = swap(clips["nobody"], "-o", "out.mp4")
    assert code == 3
    assert "0 of 8 frames swapped" in printed
    assert "it was copied as it is" in errors
    assert packets("out.mp4", "video") == packets(clips["nobody"], "video")
    code, printed, _ = swap(clips["nobody"], clips["ben"], "-o", "out/", "--json", "--to", "0.12")
    report = json.loads(printed)
    assert code == 5
    assert [each["copied"] for each in report["pictures"]] == [True, False]


def test_only_and_who_is_not_there(swap, clips, people, here):
    code, _, errors = swap(clips["ben"], "-o", "out.mp4", "--only", people["mei"])
    assert code == 3
    assert "nobody who was meant was found" in errors
    assert "the nearest face has a distance of" in errors
    code, _, errors = swap(clips["ben"], "-o", "out.mp4", "--only", people["ben"], "--quiet")
    assert (code, errors) == (0, "")


def test_a_clip_that_ends_early_is_partial(swap, clips, here):
    content = clips["long"].read_bytes()
    (here / "cut.mkv").write_bytes(content[: len(content) // 3])
    code, printed, errors = swap("cut.mkv", "-o", "out.mkv")
    assert code == 5
    assert "frames swapped" in printed
    assert "cut.mkv: some frames cut at" in errors
    code, printed, _ = swap("cut.mkv", "-o", "out.mkv", "--json")
    assert (code, json.loads(printed)["lost"][0]["kind"]) == (5, "cut")


def test_all_options_at_once(swap, clips, here):
    code, printed, errors = swap(
        *(clips["long"], "-o", "out.mp4", "--from", "0:00.2", "--to", "0.6", "--codec", "hevc"),
        *("--quality", "70", "--preset", "ultrafast", "--on-bad-frame", "hold", "--no-smooth"),
        *("--sdr", "--resume", "--preview", "strip.png", "--decoder", "auto", "--faces", "all"),
        *("--encoder", "auto", "--json"),
    )
    assert (code, errors) == (0, "")
    report = json.loads(printed)
    assert report["written"]["codec"] == "hevc"
    assert report["frames"] == 10
    assert report["ranges"][0]["start"] == 0.2
    assert report["ranges"][0]["faces"][0]["role"] == 0
    assert any("lossless" in n or "hevc" in n for n in report["written"]["notes"])
    assert any("encode" in note for note in report["written"]["notes"])
    assert names(here) == ["out.mp4", "strip.png"]


def test_a_comparison_is_written_beside_the_output(swap, clips, here):
    code, _, errors = swap(clips["ben"], "-o", "out.mp4", "--compare")
    assert (code, errors) == (0, "")
    assert names(here) == ["out.compare.mp4", "out.mp4"]
    with av.open("out.compare.mp4") as both, av.open("out.mp4") as out:
        assert both.streams.video[0].height > 2 * out.streams.video[0].height
        assert both.streams.video[0].width == out.streams.video[0].width
    code, printed, _ = swap(clips["ben"], "-o", "out/", "--dry-run", "--compare")
    assert code == 0
    assert "out/ben.compare.mp4" in printed


def test_a_dry_run_says_what_would_be_written(swap, clips, here):
    code, printed, _ = swap(clips["ben"], "-o", "out/", "--dry-run", "--preview", "see/")
    assert code == 0
    assert "out/ben.mp4" in printed
    assert "see/ben.png" in printed
    code, printed, _ = swap(clips["ben"], "-o", "x.mp4", "--dry-run", "--json")
    assert json.loads(printed)["pictures"][0]["kind"] == "clip"
    assert names(here) == []


# Refused


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--from", "1"), "from"),
        (("--to", "1"), "to"),
        (("--codec", "h264"), "codec"),
        (("--preset", "fast"), "preset"),
        (("--on-bad-frame", "hold"), "on-bad-frame"),
        (("--no-smooth",), "no-smooth"),
        (("--sdr",), "sdr"),
        (("--decoder", "auto"), "decoder"),
        (("--encoder", "auto"), "encoder"),
        (("--resume",), "resume"),
        (("--preview", "p.png"), "preview"),
    ],
)
def test_options_for_clips_are_refused_for_pictures_alone(swap, people, here, options, named):
    code, _, errors = swap(people["ben"], "-o", "out.png", *options)
    assert code == 2
    assert errors.startswith(f"mien: {named}=")
    assert "it is for clips" in errors
    assert names(here) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--debug-view",), "debug-view"),
        (("--subsampling", "4:2:0"), "subsampling"),
    ],
)
def test_options_for_pictures_are_refused_for_clips_alone(swap, clips, here, options, named):
    code, _, errors = swap(clips["ben"], "-o", "out.mp4", *options)
    assert code == 2
    assert errors.startswith(f"mien: {named}=")
    assert "it is for pictures" in errors
    assert names(here) == []


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("-o", "out.gif"), 1),
        (("-o", "out"), 1),
        (("-o", "nowhere/out.mp4"), 1),
        (("-o", "out.mp4", "--from", "soon"), 2),
        (("-o", "out.mp4", "--from", "3", "--to", "2"), 2),
        (("-o", "out.mp4", "--from", "99"), 2),
        (("-o", "out.mp4", "--quality", "0"), 2),
        (("-o", "out.mp4", "--codec", "divx"), 2),
        (("-o", "out.mp4", "--preset", "hasty"), 2),
        (("-o", "out.webm", "--codec", "h264"), 1),
        (("-o", "out.mp4", "--preview", "out.mp4"), 2),
        (("-o", "out.mp4", "--preview", "p.mp4"), 1),
    ],
)
def test_what_cannot_be_is_refused(swap, clips, here, options, code):
    found, _, errors = swap(clips["ben"], *options)
    assert (found, errors.startswith("mien: ")) == (code, True)
    assert names(here) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [("from", "-1"), ("from", "5"), ("from", "9" * 25), ("to", "0"), ("to", "soon"),
     ("to", "9" * 5000), ("preview", "out.mp4"), ("preview", "in.mp4")],
)  # fmt: skip
def test_an_option_is_refused_by_its_own_name(swap, clips, here, option, value):
    shutil.copy(clips["ben"], here / "in.mp4")
    code, _, errors = swap("in.mp4", "-o", "out.mp4", f"--{option}", value)
    assert code == 2
    assert errors.startswith(f"mien: {option}={value!r} is not possible.")
    assert names(here) == ["in.mp4"]


def test_an_interrupt_is_told_in_json_too(swap, clips, here, monkeypatch):
    def interrupted(pipeline, frame):
        raise KeyboardInterrupt

    monkeypatch.setattr("mien.pipeline.ClipPipeline.see", interrupted)
    code, printed, errors = swap(clips["ben"], "-o", "out.mp4", "--json")
    said = "interrupted; no half-written file was left."
    assert (code, errors) == (130, f"mien: {said}\n")
    assert json.loads(printed) == {"error": {"kind": "Interrupted", "message": said, "exit": 130}}
    assert names(here) == []


def test_an_interrupt_names_all_folders_of_finished_pieces(swap, clips, here, monkeypatch):
    def interrupted(pipeline, frame):
        raise KeyboardInterrupt

    monkeypatch.setattr("mien.pipeline.ClipPipeline.see", interrupted)
    for options, said in (
        ([], ".out.mp4.mien-resume;"),
        (["--compare"], ".out.mp4.mien-resume and .out.compare.mp4.mien-resume;"),
    ):
        code, _, errors = swap(clips["ben"], "-o", "out.mp4", "--resume", *options)
        assert code == 130
        assert f"finished pieces are kept in {said}" in errors


def test_a_clip_is_no_source(mien_, loaded, clips, here):
    code, _, errors = mien_("swap", clips["ben"], clips["ben"], "-o", "o.mp4", "--consent", CONSENT)
    assert code == 1
    assert "ben.mp4 cannot be read: it is a clip, and a picture is wanted here" in errors


def test_a_quality_that_is_set_for_pictures_leaves_clips_alone(swap, clips, here):
    (here / "mien.toml").write_text("quality = 10\n")
    assert swap(clips["ben"], "-o", "one.mp4", "--to", "0.2")[0] == 0
    (here / "mien.toml").unlink()
    assert swap(clips["ben"], "-o", "two.mp4", "--to", "0.2")[0] == 0
    sizes = [(here / name).stat().st_size for name in ("one.mp4", "two.mp4")]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)


def test_consent_is_asked_for(mien_, loaded, clips, people, here):
    with Image.open(people["eva"]) as image:
        image.rotate(3).save("unknown.png")
    code, _, errors = mien_("swap", "unknown.png", clips["ben"], "-o", "out.mp4")
    assert code == 4
    assert "no statement of consent" in errors
    assert names(here) == ["unknown.png"]


@pytest.mark.parametrize("resume", [False, True])
def test_an_interrupt_from_outside_leaves_nothing_but_what_was_asked_for(
    portraits, people, tmp_path, home, resume
):
    ben = head(portraits, "ben", along(60, 120, 8))
    film(tmp_path / "in.mp4", [ben], frames=120)
    command = [
        *(sys.executable, "-c", RUN, "swap", str(people["dev"]), "in.mp4", "-o", "out.mp4"),
        *("--consent", CONSENT, *(["--resume"] if resume else [])),
    ]
    environment = {**os.environ, "MIEN_HOME": str(home), "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    work = tmp_path / ".out.mp4.mien-resume"
    for _ in range(1200):
        begun = (work / "segment-000000").exists() if resume else any(tmp_path.glob(".mien-*"))
        if begun or child.poll() is not None:
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert b"interrupted" in errors
    left = names(tmp_path)
    assert left == ([".out.mp4.mien-resume", "in.mp4"] if resume else ["in.mp4"])
    assert (b"finished pieces are kept" in errors) == resume


RUN = """
import sys
from mien.engines import OnnxEngine
from mien.media.clip import run as pieces
pieces.SEGMENT = 24
call = OnnxEngine.__call__
def quick(engine, inputs):
    return {"output": -inputs["target"]} if engine.model == "mien-256" else call(engine, inputs)
OnnxEngine.__call__ = quick
from mien.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("suffix", "codec"),
    [(".mp4", "libx264"), (".mov", "libx264"), (".mkv", "libx264"), (".webm", "libvpx-vp9"),
     (".avi", "mpeg4"), (".ts", "mpeg2video"), (".flv", "flv1"), (".mpg", "mpeg1video"),
     (".ogv", "libtheora"), (".nut", "ffv1")],
)  # fmt: skip
def test_clips_are_known_by_their_first_bytes(tmp_path, suffix, codec):
    path = tmp_path / f"clip{suffix}"
    try:
        with av.open(str(path), "w") as output:
            stream = output.add_stream(codec, rate=25)
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
            for number in range(5):
                frame = av.VideoFrame(64, 64, "yuv420p")
                frame.pts = number
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    except (av.error.FFmpegError, ValueError):
        pytest.skip(f"FFmpeg is built without {codec} here")
    unnamed = path.rename(tmp_path / "clip")
    assert kind_of(unnamed) == "clip"


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".gif", ".bmp", ".tif", ".avif"])
def test_so_are_pictures(tmp_path, suffix):
    path = landscape(tmp_path / f"picture{suffix}")
    assert kind_of(path.rename(tmp_path / "picture.mp4")) == "picture"
    assert kind_of(tmp_path / "nothing.mp4") == "clip"
    assert kind_of(tmp_path / "nothing.jpg") == "picture"
    assert kind_of(tmp_path) == "picture"
