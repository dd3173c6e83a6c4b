"""Many pictures: order, overlap, faults of single pictures, and what an early end leaves (T14)."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import weakref
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock

import numpy as np
import pytest
from conftest import CONSENT
from PIL import Image

from mien import batch
from mien.batch import swap_files
from mien.errors import ConsentMissing, MienError, NoFace, PictureUnreadable, PictureUnwritable
from mien.media import read_picture
from mien.media.claim import claim
from mien.plan import Job
from mien.safety import Ledger

WAIT = 60
"""Seconds after which a test that waits for something that does not come gives up."""


def noise(path, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def jobs_in(folder, count):
    """Return jobs with pictures of noise as targets."""
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    return [
        Job(noise(folder / "in" / f"{i}.png", i), Path("s.png"), folder / "out" / f"{i}.png")
        for i in range(count)
    ]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def free(path):
    """Return whether nobody holds ``path``."""
    try:
        with claim(path):
            return True
    except PictureUnwritable:
        return False


class Written:
    """A result that is nothing but a picture."""

    partial = False

    def __init__(self, picture):
        self.picture = picture

    def report(self):
        return {"name": self.picture.name}

    def save(self, path, **options):
        path.write_text(self.picture.name)

    def save_compare(self, path):
        path.write_text(f"compare {self.picture.name}")

    def save_debug_view(self, path):
        path.write_text(f"debug {self.picture.name}")


class Copier:
    """A swapper that swaps nothing."""

    max_megapixels = 250.0

    def swap(self, picture, cast, *, strength):
        return Written(picture)


def run(jobs, swapper=None, cast_of=lambda job: None, **options):
    return list(swap_files(swapper or Copier(), jobs, cast_of, **options))


# Order, and what is said


def test_outcomes_come_in_the_order_of_the_jobs(tmp_path):
    jobs = jobs_in(tmp_path, 7)
    outcomes = run(jobs)
    assert [outcome.job for outcome in outcomes] == jobs
    assert [outcome.report["name"] for outcome in outcomes] == [f"{i}.png" for i in range(7)]
    for outcome in outcomes:
        assert (outcome.error, outcome.skipped, outcome.partial) == (None, False, False)
    assert all(job.output.read_text() == job.target.name for job in jobs)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_jobs_are_done_too(tmp_path, count):
    assert len(run(jobs_in(tmp_path, count))) == count
    assert len(names(tmp_path / "out")) == count


def test_an_outcome_is_there_when_its_picture_is(tmp_path):
    for outcome in swap_files(Copier(), jobs_in(tmp_path, 5), lambda job: None):
        assert outcome.job.output.exists()
        assert free(outcome.job.output)


def test_jobs_are_taken_as_they_are_needed(tmp_path):
    taken = []

    def endless():
        for job in jobs_in(tmp_path, 9):
            taken.append(job)
            yield job

    outcomes = swap_files(Copier(), endless(), lambda job: None)
    next(outcomes)
    assert len(taken) <= 4
    outcomes.close()
    assert len(taken) <= 4


def test_folders_of_outputs_are_made(tmp_path):
    (job,) = jobs_in(tmp_path, 1)
    deep = Job(job.target, job.source, tmp_path / "new" / "deep" / "o.png")
    assert run([deep])[0].error is None
    assert deep.output.exists()


def test_a_folder_that_was_named_for_one_file_is_not_made(tmp_path):
    (job,) = jobs_in(tmp_path, 1)
    out = tmp_path / "misspelt" / "o.png"
    (outcome,) = run([Job(job.target, job.source, out, makes_folder=False)])
    assert f"The folder {out.parent} does not exist" in str(outcome.error)
    assert not out.parent.exists()


def test_what_is_to_be_looked_at_is_written_too(tmp_path):
    (job,) = jobs_in(tmp_path, 1)
    out = tmp_path / "out"
    run([Job(job.target, job.source, job.output, out / "c.png", out / "d.png")])
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "0.png": "0.png",
        "c.png": "compare 0.png",
        "d.png": "debug 0.png",
    }


# Overlap


def test_one_is_read_and_one_is_written_while_another_is_worked_on(tmp_path, monkeypatch):
    jobs = jobs_in(tmp_path, 3)
    read = {f"{i}.png": Event() for i in range(3)}
    worked_on, writing = Event(), Event()

    def reading(path, **options):
        picture = read_picture(path, **options)
        read[picture.name].set()
        return picture

    class First(Written):
        def save(self, path, **options):
            if self.picture.name == "0.png":
                writing.set()
                assert worked_on.wait(WAIT)
            super().save(path)

    class Slow(Copier):
        def swap(self, picture, cast, *, strength):
            if picture.name == "1.png":
                worked_on.set()
                assert writing.wait(WAIT)  # the one before is being written
                assert read["2.png"].wait(WAIT)  # and the next one has been read
            return First(picture)

    monkeypatch.setattr(batch, "read_picture", reading)
    assert [outcome.error for outcome in run(jobs, Slow())] == [None] * 3


def test_few_pictures_are_in_memory_at_a_time(tmp_path, monkeypatch):
    alive, most, lock = weakref.WeakSet(), [], Lock()

    def count():
        with lock:
            most.append(len(alive))

    def reading(path, **options):
        picture = read_picture(path, **options)
        with lock:
            alive.add(picture)
        count()
        return picture

    class Counting(Copier):
        def swap(self, picture, cast, *, strength):
            count()
            return Written(picture)

    monkeypatch.setattr(batch, "read_picture", reading)
    kept = []
    for outcome in swap_files(Counting(), jobs_in(tmp_path, 12), lambda job: None):
        kept.append(outcome)
        count()
    assert len(kept) == 12
    assert 2 <= max(most) <= 4  # a thread may hold what it has written a moment longer
    count()
    assert most[-1] == 0


@pytest.mark.parametrize("where", ["swap", "cast", "save"])
def test_an_error_that_is_kept_does_not_keep_its_picture(tmp_path, monkeypatch, where):
    alive, lock = weakref.WeakSet(), Lock()

    def reading(path, **options):
        picture = read_picture(path, **options)
        with lock:
            alive.add(picture)
        return picture

    def failing(place, picture):
        if place == where:
            raise NoFace(picture.name)

    class FailingResult(Written):
        def save(self, path, **options):
            failing("save", self.picture)

    class Failing(Copier):
        def swap(self, picture, cast, *, strength):
            failing("swap", picture)
            return FailingResult(picture)

    def cast_of(job):
        picture = reading(job.target)  # as the casting of the command line reads its sources
        failing("cast", picture)

    monkeypatch.setattr(batch, "read_picture", reading)
    outcomes = run(jobs_in(tmp_path, 6), Failing(), cast_of)
    assert [type(outcome.error) for outcome in outcomes] == [NoFace] * 6
    assert len(alive) == 0


# Faults


def test_one_bad_file_does_not_stop_the_rest(tmp_path):
    jobs = jobs_in(tmp_path, 5)
    jobs[2].target.write_bytes(b"no picture")
    jobs[4].target.unlink()
    outcomes = run(jobs)
    assert [type(outcome.error) for outcome in outcomes] == [
        *(type(None), type(None), PictureUnreadable, type(None), PictureUnreadable)
    ]
    assert "2.png" in str(outcomes[2].error)
    assert "4.png" in str(outcomes[4].error)
    assert [outcome.report is None for outcome in outcomes] == [False, False, True, False, True]
    assert names(tmp_path / "out") == ["0.png", "1.png", "3.png"]
    assert all(free(job.output) for job in jobs)


@pytest.mark.parametrize("error", [NoFace("1.png"), RuntimeError("odd"), OSError(5, "I/O error")])
@pytest.mark.parametrize("where", ["swap", "cast", "save", "compare"])
def test_an_error_anywhere_ends_one_job(tmp_path, error, where):
    jobs = jobs_in(tmp_path, 3)
    jobs[1] = Job(jobs[1].target, jobs[1].source, jobs[1].output, tmp_path / "out" / "c.png")

    def failing(place, picture):
        if place == where and picture == "1.png":
            raise error

    class FailingResult(Written):
        def save(self, path, **options):
            failing("save", self.picture.name)
            super().save(path)

        def save_compare(self, path):
            failing("compare", self.picture.name)

    class Failing(Copier):
        def swap(self, picture, cast, *, strength):
            failing("swap", picture.name)
            return FailingResult(picture)

    outcomes = run(jobs, Failing(), lambda job: failing("cast", job.target.name))
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert isinstance(outcomes[1].error, MienError)
    said = str(error) if isinstance(error, NoFace) else error.args[-1]
    assert said in str(outcomes[1].error)
    assert outcomes[1].report is None
    assert names(tmp_path / "out") == ["0.png", "2.png"]
    assert all(free(job.output) for job in jobs)


def test_an_error_of_a_first_job_that_is_never_there_is_that_error():
    def jobs():
        raise ValueError("no jobs")
        yield

    with pytest.raises(ValueError, match="no jobs"):
        run(jobs())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x.psd", "cannot be written"),
        ("folder.png", "folder"),
        ("f/o.png", ""),
        ("x" * 300, "long"),
    ],
)
def test_an_output_that_cannot_be_is_that_pictures_error(tmp_path, name, why):
    jobs = jobs_in(tmp_path, 3)
    (tmp_path / "out" / "folder.png").mkdir()
    (tmp_path / "out" / "f").touch()
    suffix = "" if "." in name else ".png"
    bad = Job(jobs[1].target, jobs[1].source, tmp_path / "out" / f"{name}{suffix}")
    outcomes = run([jobs[0], bad, jobs[2]])
    assert [type(outcome.error) for outcome in outcomes] == [
        *(type(None), PictureUnwritable, type(None))
    ]
    assert why in str(outcomes[1].error)


def test_a_name_that_cannot_be_is_that_pictures_error_when_existing_ones_are_skipped(tmp_path):
    jobs = jobs_in(tmp_path, 3)
    bad = Job(jobs[1].target, jobs[1].source, tmp_path / "out" / f"{'x' * 300}.png")
    outcomes = run([jobs[0], bad, jobs[2]], skip_existing=True)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]


def test_what_is_there_is_skipped_unread(tmp_path):
    jobs = jobs_in(tmp_path, 4)
    jobs[1].output.write_text("mine")
    jobs[1].target.write_bytes(b"no picture")
    asked = []
    outcomes = run(jobs, cast_of=asked.append, skip_existing=True)
    assert [outcome.skipped for outcome in outcomes] == [False, True, False, False]
    assert (outcomes[1].error, outcomes[1].report) == (None, None)
    assert jobs[1].output.read_text() == "mine"
    assert asked == [jobs[0], jobs[2], jobs[3]]
    assert [outcome.skipped for outcome in run(jobs, skip_existing=True)] == [True] * 4
    assert not any(outcome.skipped for outcome in run([jobs[0]]))


def test_an_output_that_another_run_makes_is_an_error(tmp_path):
    jobs = jobs_in(tmp_path, 3)
    with claim(jobs[1].output):
        outcomes = run(jobs)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert "another run of mien" in str(outcomes[1].error)
    assert names(tmp_path / "out") == ["0.png", "2.png"]


def test_every_output_is_held_until_it_is_there(tmp_path):
    jobs = jobs_in(tmp_path, 4)
    seen = []

    class Looking(Copier):
        def swap(self, picture, cast, *, strength):
            seen.append([free(job.output) for job in jobs])
            return Written(picture)

    run(jobs, Looking())
    for number, row in enumerate(seen):
        assert row[number] is False
        assert all(row[number + 2 :])
    assert all(free(job.output) for job in jobs)


# An early end


@pytest.mark.parametrize("where", ["swap", "cast", "jobs"])
def test_an_interrupt_leaves_whole_files_and_nothing_held(tmp_path, where):
    jobs = jobs_in(tmp_path, 6)

    def interrupt(place, number):
        if place == where and number == 3:
            raise KeyboardInterrupt

    class Interrupted(Copier):
        def swap(self, picture, cast, *, strength):
            interrupt("swap", int(picture.name[0]))
            return Written(picture)

    def coming():
        for number, job in enumerate(jobs):
            interrupt("jobs", number)
            yield job

    seen = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(
            swap_files(
                Interrupted(), coming(), lambda job: interrupt("cast", int(job.target.name[0]))
            )
        )
    done = names(tmp_path / "out")
    assert done == [f"{i}.png" for i in range(len(done))]
    assert len(done) <= 3
    assert all(path.read_text() == path.name for path in (tmp_path / "out").iterdir())
    assert all(free(job.output) for job in jobs)


def test_who_stops_listening_stops_the_work(tmp_path):
    jobs = jobs_in(tmp_path, 6)
    outcomes = swap_files(Copier(), jobs, lambda job: None)
    assert next(outcomes).job == jobs[0]
    outcomes.close()
    assert len(names(tmp_path / "out")) <= 3
    assert all(free(job.output) for job in jobs)


# With the networks, and a disk


@pytest.fixture
def work(tmp_path, people, swapper, loaded):
    """Four jobs, the function that casts them, and the folder of their outputs."""
    dev = swapper.identity(people["dev"], consent=CONSENT)
    cast = swapper.cast(dev)
    jobs = [
        Job(people[name], people["dev"], tmp_path / f"{name}.png")
        for name in ("ada", "ben", "eva", "mei")
    ]
    return jobs, lambda job: cast


def test_files_are_what_single_swaps_give(work, swapper, no_watermark):
    jobs, cast_of = work
    outcomes = run(jobs, swapper, cast_of)
    assert [outcome.error for outcome in outcomes] == [None] * 4
    for job in jobs:
        alone = swapper.swap(job.target, cast_of(job)).pixels
        assert np.array_equal(read_picture(job.output).frame.pixels.numpy(), alone)


def test_errors_of_people_end_only_their_jobs(work, swapper):
    jobs, cast_of = work

    def refusing(job):
        if job is jobs[1]:
            raise ConsentMissing("dev.png")
        return cast_of(job)

    outcomes = run(jobs, swapper, refusing)
    assert [type(each.error).__name__ for each in outcomes] == [
        *("NoneType", "ConsentMissing", "NoneType", "NoneType")
    ]


@contextmanager
def small_disk(size):
    """Let no file of this process grow beyond ``size`` bytes."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def on_another_disk(swapper, tmp_path, monkeypatch):
    """Put ledger and audit log where the limit of ``small_disk`` is far: into small files."""
    monkeypatch.setattr(swapper, "_begin", lambda cast: None)
    monkeypatch.setattr(swapper, "ledger", Ledger(folder=tmp_path / "ledger"))


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif", ".bmp", ".avif", ".gif"])
def test_a_full_disk_is_an_error_and_what_was_there_stays(
    work, swapper, tmp_path, monkeypatch, suffix
):
    (job, *_), cast_of = work
    out = tmp_path / f"out{suffix}"
    out.write_bytes(b"old")
    on_another_disk(swapper, tmp_path, monkeypatch)
    with small_disk(2000):
        (outcome,) = run([Job(job.target, job.source, out)], swapper, cast_of)
    assert isinstance(outcome.error, PictureUnwritable)
    assert str(out) in str(outcome.error)
    assert outcome.report is None
    assert out.read_bytes() == b"old"
    assert names(tmp_path) == [out.name]
    assert free(out)


def test_a_disk_that_is_full_for_one_is_not_for_the_rest(work, swapper, tmp_path, monkeypatch):
    jobs, cast_of = work
    on_another_disk(swapper, tmp_path, monkeypatch)
    (tmp_path / "out").mkdir()
    with Image.open(jobs[1].target) as image:
        image.resize((900, 900)).save(tmp_path / "large.png")
    jobs = [Job(job.target, job.source, tmp_path / "out" / job.output.name) for job in jobs]
    jobs[1] = Job(tmp_path / "large.png", jobs[1].source, jobs[1].output)
    with small_disk(200_000):
        outcomes = run(jobs, swapper, cast_of)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True, True]
    assert names(tmp_path / "out") == ["ada.png", "eva.png", "mei.png"]


@pytest.mark.parametrize("skip_existing", [False, True])
def test_a_folder_that_is_locked_is_an_error_of_its_pictures(
    work, swapper, tmp_path, lock, skip_existing
):
    jobs, cast_of = work
    locked = tmp_path / "locked"
    locked.mkdir()
    lock(locked)
    jobs[1] = Job(jobs[1].target, jobs[1].source, locked / "ben.png")
    outcomes = run(jobs, swapper, cast_of, skip_existing=skip_existing)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True, True]
    assert "Permission denied" in str(outcomes[1].error)
    assert str(locked / "ben.png") in str(outcomes[1].error)


@pytest.mark.parametrize("where", ["", "below/deeper/"])
def test_a_folder_that_is_read_only_is_an_error_of_its_pictures(
    work, swapper, tmp_path, monkeypatch, where
):
    jobs, cast_of = work
    kept = tmp_path / "kept"
    kept.mkdir()
    opens, makes = Path.open, Path.mkdir

    def refusing(function):
        def call(path, *arguments, **options):
            if kept in path.parents and not path.exists():
                raise OSError(errno.EROFS, "Read-only file system", str(path))
            return function(path, *arguments, **options)

        return call

    monkeypatch.setattr(Path, "open", refusing(opens))
    monkeypatch.setattr(Path, "mkdir", refusing(makes))
    jobs[1] = Job(jobs[1].target, jobs[1].source, kept / f"{where}ben.png")
    outcomes = run(jobs, swapper, cast_of)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True, True]
    assert "Read-only file system" in str(outcomes[1].error)
    assert str(kept / f"{where}ben.png") in str(outcomes[1].error)
    assert names(kept) == []


def test_a_failed_picture_leaves_nothing_to_look_at(work, swapper, tmp_path, monkeypatch):
    (job, *_), cast_of = work
    job = Job(job.target, job.source, tmp_path / "o.png", debug_view=tmp_path / "small.jpg")
    with small_disk(70_000):
        (outcome,) = run([job], swapper, cast_of)
    assert isinstance(outcome.error, PictureUnwritable)
    assert names(tmp_path) == []


# Memory and open files (T14)

MANY = """
import json, os, sys
from pathlib import Path
from mien import Swapper
from mien.batch import swap_files
from mien.engines import OnnxEngine
from mien.plan import Job

call = OnnxEngine.__call__
OnnxEngine.__call__ = lambda engine, inputs: (
    {"output": -inputs["target"]} if engine.model == "mien-256" else call(engine, inputs)
)
folder, targets, consent = Path(sys.argv[1]), sys.argv[2:-1], sys.argv[-1]
swapper = Swapper(threads=1)
cast = swapper.cast(swapper.identity(targets[0], consent=consent))
jobs = (
    Job(Path(targets[i % len(targets)]), None, folder / f"{i}.png", folder / f"{i}.compare.png")
    for i in range(80)
)


def used():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages, len(os.listdir("/proc/self/fd"))


seen = [used()]
for outcome in swap_files(swapper, jobs, lambda job: cast):
    assert outcome.error is None, outcome.error
    seen.append(used())
print(json.dumps([*seen, used()]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_eighty_pictures_take_no_more_memory_than_three(tmp_path, people):
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path), *map(str, people.values()), CONSENT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert len(seen) == 82
    assert len(names(tmp_path)) == 160
    memory, files = zip(*seen, strict=True)
    assert memory[20] < 1.05 * memory[3]
    assert memory[80] < 1.05 * memory[3]
    # while pictures are done, two more may be open: one that is read and one that is written
    assert max(files[1:]) <= max(files[1:20]) + 2
    assert files[-1] == files[0]
