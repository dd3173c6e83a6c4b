"""Keys in tokens: a real one, SoftHSM's, signs; and every fault is told, with no PIN in it."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_public_key
from signing import NETWORKS, authority, signed, state

from mien.errors import CertificateUnusable, InvalidOption, OptionsConflict, TokenUnusable
from mien.safety import token as tokens
from mien.safety.certificate import certificate_of
from mien.safety.ledger import Ledger
from mien.safety.manifest import Provenance
from mien.safety.verify import own_certificates, verify
from mien.token_uri import TokenUri

PIN, WRONG = "314159265", "271828182"

PLACES = (
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
    "/opt/homebrew/lib/softhsm/libsofthsm2.so",
)


def module():
    """Return SoftHSM's library: SOFTHSM2_MODULE, or where systems put it."""
    places = [os.environ.get("SOFTHSM2_MODULE", ""), *PLACES]
    found = next((each for each in places if each and Path(each).is_file()), None)
    if found is None:
        pytest.skip("there is no SoftHSM: install softhsm2, or name its library: SOFTHSM2_MODULE")
    return Path(found)


class Hsm:
    """A token with keys, each with a certificate of an authority's, by name."""

    def __init__(self, folder):
        self.folder, self.module = folder, module()
        self.pin = folder / "pin"
        self.pin.write_text(f"{PIN}\n")
        self.certificates, self.roots = {}, {}

    def uri(self, name="p256", *, token="mien tests", pin=None, more=""):
        given = f"pkcs11:token={token.replace(' ', '%20')};object={name}{more}"
        return TokenUri.read(f"{given}?module-path={self.module}&pin-source={pin or self.pin}")

    def provenance(self, name="p256", *, certificate=None, **options):
        path = self.certificates[certificate or name]
        return Provenance(NETWORKS, path, token=self.uri(name, **options))


@pytest.fixture(scope="module")
def hsm(tmp_path_factory):
    pkcs11 = pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed: mien[pkcs11]")
    hsm = Hsm(tmp_path_factory.mktemp("hsm"))
    tool = os.environ.get("SOFTHSM2_UTIL") or shutil.which("softhsm2-util")
    if tool is None:
        pytest.skip("there is no softhsm2-util: install softhsm2, or name it: SOFTHSM2_UTIL")
    patch = pytest.MonkeyPatch()
    (hsm.folder / "tokens").mkdir()
    settings = hsm.folder / "softhsm2.conf"
    settings.write_text(f"directories.tokendir = {hsm.folder / 'tokens'}\nlog.level = ERROR\n")
    patch.setenv("SOFTHSM2_CONF", str(settings))
    for label in ("mien tests", "twin", "twin"):
        options = ["--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", PIN]
        subprocess.run([tool, "--module", hsm.module, *options], check=True, capture_output=True)
    library = pkcs11.lib(str(hsm.module))
    with library.get_token(token_label="mien tests").open(rw=True, user_pin=PIN) as session:
        for name in KINDS:
            public = generate(pkcs11, session, name)
            certificate, _, root = authority(hsm.folder, name, public=public)
            certificate.write_bytes(certificate.read_bytes() + root.read_bytes())
            hsm.certificates[name], hsm.roots[name] = certificate, root
        attribute = pkcs11.Attribute
        group = {attribute.PRIME: (2**521 - 1).to_bytes(66), attribute.BASE: b"\3"}
        diffie = session.create_domain_parameters(pkcs11.KeyType.DH, group, local=True)
        diffie.generate_keypair(store=True, label="diffie")
        for _ in range(2):
            generate(pkcs11, session, "p256", label="double")
        generate(pkcs11, session, "p256", label="mute", capabilities=pkcs11.MechanismFlag.DERIVE)
    yield hsm
    log_out()
    library.finalize()
    patch.undo()


def log_out():
    """End the sessions that mien holds, as if it had begun just now."""
    while tokens._sessions:
        tokens._sessions.popitem()[1].close()


KINDS = {
    "p256": ("secp256r1", "es256"),
    "p384": ("secp384r1", "es384"),
    "p521": ("secp521r1", "es512"),
    "asked": ("secp256r1", "es256"),  # wants the PIN for each signature
    "rsa": (None, "ps256"),
    "ed": ("1.3.101.112", "ed25519"),
}


def generate(pkcs11, session, name, *, label=None, **options):
    """Make a key in the token; return its public key."""
    from pkcs11.util.ec import encode_ec_public_key, encode_named_curve_parameters
    from pkcs11.util.rsa import encode_rsa_public_key

    options |= {"store": True, "label": label or name}
    attribute, kinds = pkcs11.Attribute, pkcs11.KeyType
    if name == "asked":
        options["private_template"] = {attribute.ALWAYS_AUTHENTICATE: True}
    if name == "rsa":
        public, _ = session.generate_keypair(kinds.RSA, 2048, **options)
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        numbers = (public[attribute.PUBLIC_EXPONENT], public[attribute.MODULUS])
        assert encode_rsa_public_key(public)
        return RSAPublicNumbers(*map(int.from_bytes, numbers)).public_key()
    curve = {attribute.EC_PARAMS: encode_named_curve_parameters(KINDS[name][0])}
    kind = kinds.EC_EDWARDS if name == "ed" else kinds.EC
    if name == "ed":
        options["mechanism"] = pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN
    drawn = session.create_domain_parameters(kind, curve, local=True)
    public, _ = drawn.generate_keypair(**options)
    if name == "ed":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return Ed25519PublicKey.from_public_bytes(public[attribute.EC_POINT][-32:])
    return load_der_public_key(encode_ec_public_key(public))


@pytest.mark.parametrize("name", KINDS)
def test_a_key_in_a_token_signs_and_viewers_take_it(hsm, tmp_path, name):
    provenance = hsm.provenance(name)
    provenance.prepare()
    out = signed(tmp_path / "out.jpg", provenance=provenance)
    assert state(out, hsm.roots[name].read_bytes()) == "Trusted"
    assert provenance._ready().algorithm == KINDS[name][1]


def test_a_picture_signed_there_is_proven_without_the_token(hsm, tmp_path):
    out = signed(tmp_path / "out.bmp", provenance=hsm.provenance())
    elsewhere = TokenUri.read("pkcs11:object=p256?module-path=/not/here.so")
    own = own_certificates(hsm.certificates["p256"], None, elsewhere)
    assert verify(out, own=own).verdict == "proven"


def test_a_swapper_signs_with_a_token(hsm, tmp_path, swapper, portraits, loaded, monkeypatch):
    monkeypatch.setattr(swapper, "_provenance", hsm.provenance())
    identity = swapper.identity(portraits["dev"], consent="Generated: no real person is shown.")
    swapper.swap(portraits["ben"], identity).save(tmp_path / "out.jpg")
    assert state(tmp_path / "out.jpg", hsm.roots["p256"].read_bytes()) == "Trusted"
    ledger = Ledger()
    assert all(PIN.encode() not in each.read_bytes() for each in ledger.audit.folder.iterdir())


def test_many_threads_sign_with_one_token(hsm, tmp_path):
    provenance = hsm.provenance("p384")
    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(signed, tmp_path / f"{n}.png", provenance=provenance) for n in range(8)]
    assert {state(each.result()) for each in made} == {"Valid"}


def test_a_session_that_ended_is_opened_anew(hsm, tmp_path):
    provenance = hsm.provenance()
    provenance.prepare()
    for session in tokens._sessions.values():
        session.close()
    assert state(signed(tmp_path / "out.jpg", provenance=provenance)) == "Valid"


def test_a_token_that_goes_while_signing_leaves_nothing(hsm, tmp_path, monkeypatch, caplog):
    import pkcs11

    def gone(key, binding, content):
        raise pkcs11.DeviceRemoved

    provenance = hsm.provenance()
    provenance.prepare()
    monkeypatch.setattr(tokens.TokenKey, "_sign", gone)
    with caplog.at_level(logging.DEBUG), pytest.raises(TokenUnusable, match="DeviceRemoved"):
        signed(tmp_path / "out.jpg", provenance=provenance)
    assert not list(tmp_path.iterdir())
    assert PIN not in caplog.text


def refused(hsm, caplog, *, name="p256", certificate="p256", **options):
    """Return what is said of a key that cannot be used; no PIN is in it, nor in what is logged."""
    log_out()
    provenance = hsm.provenance(name, certificate=certificate, **options)
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises((TokenUnusable, CertificateUnusable)) as caught,
    ):
        provenance.prepare()
    said = str(caught.value)
    assert PIN not in said + caplog.text
    assert WRONG not in said + caplog.text
    return said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"token": "missing"}, "there are: 'mien tests', 'twin', 'twin'. Put it in"),
        ({"token": "twin"}, "2 tokens fit; say serial="),
        ({"name": "missing"}, "no private key in the token .* correct object="),
        ({"name": "double"}, "2 private keys fit; say which one by id="),
        ({"name": "diffie"}, "C2PA does not allow .DH.; use EC P-256"),
        ({"name": "mute"}, "does not let it sign"),
        ({"name": "p384"}, "another certificate's"),
        ({"name": "asked"}, "another certificate's"),
        ({"name": "rsa"}, "RSA key, and the certificate's is another kind"),
        ({"more": ";serial=0"}, "no token there"),
        ({"pin": "/not/here"}, "the file of the PIN, /not/here, cannot be read .No such file"),
        ({"pin": "/dev/null"}, "/dev/null holds no PIN"),
    ],
)
def test_what_is_wrong_is_said(hsm, caplog, options, said):
    assert re.search(said, refused(hsm, caplog, **options))


def test_a_wrong_pin_is_tried_once(hsm, tmp_path, caplog, monkeypatch):
    tokens_of, tried = tokens.TokenKey._token, []

    class Counted:
        def __init__(self, token):
            self.serial, self._token = token.serial, token

        def open(self, **options):
            tried.append(options)
            return self._token.open(**options)

    monkeypatch.setattr(tokens.TokenKey, "_token", lambda *a: Counted(tokens_of(*a)))
    wrong = tmp_path / "pin"
    wrong.write_text(WRONG)
    for _ in range(3):
        assert f"the PIN in {wrong} is wrong" in refused(hsm, caplog, pin=wrong)
    assert len(tried) == 1
    wrong.write_text(PIN)
    hsm.provenance(pin=wrong).prepare()


def test_without_a_pin_keys_are_hidden(hsm, caplog):
    log_out()
    path = hsm.certificates["p256"]
    uri = TokenUri.read(f"pkcs11:token=mien%20tests;object=p256?module-path={hsm.module}")
    with pytest.raises(TokenUnusable, match="pin-source=: without it keys are hidden"):
        Provenance(NETWORKS, path, token=uri).prepare()
    log_out()


# What needs no token


def test_a_library_that_is_not_installed_is_said(tmp_path, monkeypatch):
    certificate, _, _ = authority(tmp_path, "One")
    monkeypatch.setitem(sys.modules, "pkcs11", None)
    uri = TokenUri.read("pkcs11:object=a?module-path=/a.so")
    with pytest.raises(TokenUnusable, match=r"pip install 'mien\[pkcs11\]'"):
        Provenance(NETWORKS, certificate, token=uri).prepare()


@pytest.mark.parametrize(
    ("path", "said"), [("/not/here.so", "no such file"), ("own", "no PKCS #11 library")]
)
def test_a_module_that_is_none_is_said(tmp_path, path, said):
    pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed: mien[pkcs11]")
    certificate, _, _ = authority(tmp_path, "One")
    path = certificate if path == "own" else path
    uri = TokenUri.read(f"pkcs11:object=a?module-path={path}")
    with pytest.raises(TokenUnusable, match=said):
        Provenance(NETWORKS, certificate, token=uri).prepare()


def test_a_certificate_and_one_key_are_needed(tmp_path):
    certificate, key, _ = authority(tmp_path, "One")
    uri = TokenUri.read("pkcs11:object=a?module-path=/a.so")
    with pytest.raises(InvalidOption, match="certificate=None"):
        certificate_of(None, None, uri)
    with pytest.raises(OptionsConflict, match="private_key"):
        certificate_of(certificate, key, uri)
    weak = authority(tmp_path, "Weak", public=ec.generate_private_key(ec.SECP256K1()).public_key())
    with pytest.raises(CertificateUnusable, match="C2PA does not allow"):
        certificate_of(weak[0], None, uri)
