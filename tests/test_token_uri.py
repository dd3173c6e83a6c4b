"""PKCS #11 URIs: what they mean, what is refused, and that a PIN in one is never shown."""

from __future__ import annotations

import pytest

from mien.errors import InvalidOption
from mien.settings import Settings, load
from mien.token_uri import TokenUri

FULL = (
    "pkcs11:token=My%20token;serial=01ab;model=v2;manufacturer=Maker;slot-id=7;object=signer%3b1;"
    "id=%00%ff;type=private?module-path=/usr/lib/maker.so&pin-source=file:///etc/pin%201"
)


def test_every_part_is_read():
    uri = TokenUri.read(FULL)
    assert (uri.token, uri.serial, uri.model) == ("My token", "01ab", "v2")
    assert (uri.manufacturer, uri.slot, uri.object, uri.id) == ("Maker", 7, "signer;1", b"\0\xff")
    assert (str(uri.module), str(uri.pin)) == ("/usr/lib/maker.so", "/etc/pin 1")
    assert uri.text == FULL


@pytest.mark.parametrize("source", ["/etc/pin", "file:/etc/pin", "file:///etc/pin"])
def test_a_file_is_named_by_path_or_url(source):
    uri = TokenUri.read(f"pkcs11:id=%01?pin-source={source}&module-path=/a.so")
    assert str(uri.pin) == "/etc/pin"
    assert TokenUri.read("pkcs11:id=%01?module-path=/a.so").pin is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("token=a;object=b?module-path=/a.so", "a PKCS #11 URI"),
        ("pkcs11:object=a b?module-path=/a.so", "a PKCS #11 URI"),
        ("pkcs11:token=a?module-path=/a.so", "object="),
        ("pkcs11:object=a", "module-path="),
        ("pkcs11:object=a?module-path=a.so", "an absolute path as module-path="),
        ("pkcs11:object=a?module-path=/a.so&pin-source=|/bin/ask", "an absolute path as pin"),
        ("pkcs11:object=a?module-path=/a%00.so", "an absolute path"),
        ("pkcs11:object=a;type=cert?module-path=/a.so", "type=private"),
        ("pkcs11:object=a;slot-id=x?module-path=/a.so", "digits"),
        ("pkcs11:objekt=a?module-path=/a.so", "not 'objekt'"),
        ("pkcs11:object=a?module-name=a", "not 'module-name'"),
        ("pkcs11:object=a;object=b?module-path=/a.so", "object= once"),
        ("pkcs11:object=?module-path=/a.so", "with a value"),
        ("pkcs11:object=%4?module-path=/a.so", "two hexadecimal digits"),
        ("pkcs11:object=%ff?module-path=/a.so", "UTF-8"),
    ],
)
def test_what_is_wrong_is_said(text, said):
    with pytest.raises(InvalidOption, match=said) as caught:
        TokenUri.read(text)
    assert "signing_pkcs11" in str(caught.value)
    with pytest.raises(InvalidOption, match=said):
        Settings(signing_pkcs11=text)


PIN = "pkcs11:object=a?module-path=/a.so&pin-value=271828"


@pytest.mark.parametrize(
    "read",
    [
        lambda: TokenUri.read(PIN),
        lambda: TokenUri.read(PIN.replace("?module-path=/a.so&", ";")),
        lambda: Settings(signing_pkcs11=PIN),
        lambda: load(environment={"MIEN_SIGNING_PKCS11": PIN}),
        lambda: load(environment={"MIEN_SIGNING_PKCS": PIN}),
    ],
)
def test_a_pin_is_refused_and_not_shown(read):
    with pytest.raises(InvalidOption) as caught:
        read()
    assert "271828" not in f"{caught.value} {caught.value.value} {caught.value.args}"
    assert "pin-value=…" in str(caught.value)
