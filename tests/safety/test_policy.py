"""The policy file: profiles, limits and their ranges, and what the log tells of a change."""

from __future__ import annotations

import json

import pytest

from mien.errors import InvalidOption, PolicyInvalid
from mien.safety.audit import AuditLog
from mien.safety.keys import Key
from mien.safety.policy import PROFILES, RANGES, Limits, note_policy, read_policy


@pytest.fixture
def policy(tmp_path):
    def write(text):
        (tmp_path / "policy.toml").write_text(text)
        return read_policy(tmp_path)

    return write


def test_without_a_file_the_limits_are_the_default_ones(tmp_path):
    found = read_policy(tmp_path)
    assert (found.profile, found.limits, found.digest) == ("default", Limits(), None)


def test_a_file_chooses_a_profile_and_changes_limits(policy):
    found = policy('profile = "eu-deployer"\ncontent = 0.5\nadult = 21\n')
    assert found.profile == "eu-deployer"
    assert found.limits == Limits(content=0.5, adult=21.0, visible_label=True)


def test_the_file_that_the_environment_names_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("MIEN_POLICY", str(tmp_path / "other.toml"))
    with pytest.raises(PolicyInvalid, match="no such file"):
        read_policy(tmp_path)
    (tmp_path / "other.toml").write_text("protected = 0.4")
    assert read_policy(tmp_path).limits.protected == 0.4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("watermark = false", "'watermark' is no limit; allowed: profile, content"),
        ("manifest = false", "'manifest' is no limit"),
        ("content = 1.0", "content = 1.0; allowed: 0.1 to 0.95"),
        ("minor = 17", "minor = 17; allowed: 18 to 40"),
        ("adult = 17", "adult = 17; allowed"),
        ("minor = 25", "adult = 23 is below minor = 25"),
        ("protected = 0.9", "protected = 0.9; allowed"),
        ("protected = nan", "protected = nan; allowed"),
        ("content = true", "content = True; allowed"),
        ("visible_label = 1", "visible_label = 1; allowed: true, false"),
        ('profile = "mine"', "profile = 'mine'; allowed: default, eu-deployer, cn"),
        ("profile", "no TOML"),
    ],
)
def test_what_is_not_allowed_is_refused(policy, text, said):
    with pytest.raises(PolicyInvalid) as caught:
        policy(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_is_laxer_than_the_default(name):
    limits, default = PROFILES[name], Limits()
    assert limits.content <= default.content
    assert limits.protected <= default.protected
    assert limits.minor >= default.minor
    assert limits.adult >= default.adult
    assert all(least <= getattr(limits, key) <= most for key, (least, most) in RANGES.items())


def test_a_change_is_logged_once(policy, tmp_path):
    audit = AuditLog(tmp_path / "audit", Key(tmp_path / "signing.pem"))
    note_policy(read_policy(tmp_path), audit)
    assert not audit.folder.exists()
    for text in ("adult = 20", "adult = 20", "adult = 21"):
        note_policy(policy(text), audit)
    (tmp_path / "policy.toml").unlink()
    note_policy(read_policy(tmp_path), audit)
    lines = (audit.folder / "audit-00001.jsonl").read_text().splitlines()
    digests = [json.loads(line)["digest"] for line in lines[1:]]
    assert len(set(digests)) == len(digests) == 3
    assert digests[-1] is None
    audit.verify()


def test_the_engine_takes_its_limits_from_the_file(tmp_path, monkeypatch, home):
    from mien import Swapper

    (tmp_path / "p.toml").write_text("adult = 30\nprofile = 'cn'")
    monkeypatch.setenv("MIEN_POLICY", str(tmp_path / "p.toml"))
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "home"))
    swapper = Swapper(occlusion=False)
    assert swapper._guard.limits.adult == 30
    assert swapper._imprint.report() == {"text": "AI合成", "place": "bottom-right"}
    with pytest.raises(InvalidOption, match="wants a visible label"):
        Swapper(label=False)
    assert "policy.changed" in (tmp_path / "home/audit/audit-00001.jsonl").read_text()
    (tmp_path / "p.toml").write_text("adult = 3")
    with pytest.raises(PolicyInvalid):
        Swapper()
