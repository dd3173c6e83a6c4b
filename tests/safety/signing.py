"""What tests of manifests share: authorities, files to sign, and what a reader of its own says."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import av
import c2pa
import numpy as np
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from PIL import Image

from mien.media import Picture, write_picture
from mien.safety import xmp_packet
from mien.safety.manifest import Provenance, kind_of
from mien.types import Frame

NETWORKS = {"mien-256": "ab" * 32}
RECORD = "c-0123456789abcdef"
PEM = serialization.Encoding.PEM


def authority(folder, name, *, lasts=timedelta(days=9), leaf=True, public=None):
    """Write a certificate of an authority's, its key and the authority's own; return their paths.

    It is made here with nothing of mien's, as if bought. Without ``leaf``, it issued itself. It is
    for the key ``public``, if that lies elsewhere; the key that is written is of no use then.
    """
    above, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    now = datetime.now(UTC)

    def issue(public, common, *, ends):
        named = [
            x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, name),
                       x509.NameAttribute(NameOID.COMMON_NAME, each)])
            for each in (common, f"{name} root")
        ]  # fmt: skip
        other = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        uses = dict.fromkeys((*other, "encipher_only", "decipher_only"), False)
        draft = (
            x509.CertificateBuilder()
            .subject_name(named[0])
            .issuer_name(named[1])
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + lasts)
            .add_extension(x509.BasicConstraints(not ends, None), critical=True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=ends, key_cert_sign=not ends, crl_sign=not ends, **uses
                ),
                critical=True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(above.public_key()),
                critical=False,
            )
        )
        if ends:
            purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
            draft = draft.add_extension(purpose, critical=False)
        return draft.sign(above, hashes.SHA384()).public_bytes(PEM)

    root = issue(above.public_key(), f"{name} root", ends=False)
    own = issue(public or key.public_key(), f"{name} signer", ends=True) if leaf else root
    private = (key if leaf else above).private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths = [folder / f"{name}-{kind}.pem" for kind in ("certificate", "key", "root")]
    for path, content in zip(paths, (own, private, root), strict=True):
        path.write_bytes(content)
    return paths


def noise(side=64, seed=0):
    """Return smooth coloured pixels, which survive any compression as something."""
    small = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return np.array(Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC))


def picture(path, *, seal=None, seed=0, frames=1, produced=None):
    """Write a marked picture, sealed or not, with mien's own writer."""
    shots = tuple(
        Frame(torch.from_numpy(noise(seed=seed + n)), time=Fraction(n, 10) if frames > 1 else None)
        for n in range(frames)
    )
    durations = (Fraction(1, 10),) * frames if frames > 1 else ()
    xmp = xmp_packet(consents=[RECORD], model="mien-256", version="0", produced=produced)
    whole = Picture(shots, name=path.name, durations=durations)
    write_picture(path, whole, xmp=xmp, seal=seal)
    return path


def signed(path, *, target=None, provenance=None, seed=0, produced="0" * 32, frames=1):
    """Write a picture that is marked and signed, as a swapper's are."""
    provenance = provenance or Provenance(NETWORKS)
    seal = provenance.seal(target, consents=[RECORD], produced=produced)
    return picture(path, seal=seal, seed=seed, frames=frames, produced=produced)


def clip(path, frames=6, codec="mpeg4"):
    """Write a clip of noise."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=10)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for n in range(frames):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(noise(seed=n), format="rgb24")))
        output.mux(stream.encode())
    return path


def shown(path):
    """Return every frame of a picture or clip as it decodes, with another library than c2pa's."""
    if path.suffix in (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".ts"):
        with av.open(str(path)) as file:
            return [(frame.pts, frame.to_ndarray().tobytes()) for frame in file.decode(video=0)]
    with Image.open(path) as image:
        found = []
        for n in range(getattr(image, "n_frames", 1)):
            image.seek(n)
            found.append(image.convert("RGBA").tobytes())
        return found


def state(path, anchors=None, manifest=None):
    """Return what C2PA's own reader says: Valid, Trusted or Invalid."""
    trust = {} if anchors is None else {"trust": {"trust_anchors": anchors.decode()}}
    context = c2pa.Context.from_dict({"verify": {"verify_trust": True}, **trust})
    with c2pa.Reader(kind_of(path), io.BytesIO(path.read_bytes()), manifest, context=context) as r:
        return r.get_validation_state()
