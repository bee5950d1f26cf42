"""Where a webhook may lead to: as a URL is registered, and for what its name stands for when it is called."""

import asyncio
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streams_node.errors import WebhookRejected
from streams_node.subscriptions.addresses import Address, Policy, check_addresses, networks_of, target_of
from streams_node.subscriptions.call import Caller, CallFailed
from tests.subscriptions.receivers import receiving, said

PUBLIC = Policy()
TRIED_OUT = Policy(loopback=True)
INSIDE = Policy(networks=networks_of("10.1.0.0/16, fd12::/16"))


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/a?b=c", "https://hooks.example.com:8443/", "https://hooks.example.com.",
        "https://93.184.215.14/", "https://[2606:4700::1111]/hook", "https://xn--bcher-kva.example/",
    ],
)  # fmt: skip
def test_public_addresses_are_taken(url: str) -> None:
    assert target_of(url, PUBLIC).scheme == "https"


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/", "http://93.184.215.14/",  # not https
        "https://localhost/", "https://127.0.0.1/", "https://127.8.9.1/", "https://[::1]/", "http://[::1]/",
        "https://10.0.0.1/", "http://10.0.0.1/hook", "https://172.16.0.1/", "https://172.31.255.255/",
        "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/", "https://0.0.0.0/", "https://0.1.2.3/",
        "https://100.64.0.1/", "https://198.18.0.1/", "https://192.0.2.1/", "https://224.0.0.1/", "https://240.0.0.1/",
        "https://255.255.255.255/", "https://[::]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
        "https://[fc00::1]/", "https://[fec0::1]/", "https://[ff02::1]/", "https://[2001:db8::1]/",
        # IPv4 inside IPv6
        "https://[::ffff:127.0.0.1]/", "https://[::ffff:10.0.0.1]/", "https://[::10.0.0.1]/",
        "https://[64:ff9b::a00:1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:a00:1::]/", "https://[2002:7f00:1::1]/",
        "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
        # notations that resolvers understand
        "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/", "https://10.1/",
        "https://0x7f.0.0.1/", "https://017700000001/", "https://hooks.example.com.2130706433/",
        # what a URL may hide
        "https://user@hooks.example.com/", "https://user:pass@hooks.example.com/", "https://hooks.example.com/#a",
        "https://hooks.example.com\\@10.0.0.1/", "https://hooks.example.com/a b", "https://hooks.example.com/\r\nX: y",
        "https://ho\u00f6ks.example.com/", "https://", "https:///path", "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/", "https://-a.example/", "https://a..example/", "https://[::1/", "https://[v1.x]/",
        "ftp://hooks.example.com/", "file:///etc/passwd", "gopher://hooks.example.com/", "hooks.example.com", "",
        "javascript:alert(1)", "https://hooks.example.com/" + "a" * 3000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", [PUBLIC, TRIED_OUT], ids=["public", "tried-out"])
def test_everything_else_is_refused(url: str, policy: Policy) -> None:
    with pytest.raises(WebhookRejected):
        target_of(url, policy)


def test_plain_http_to_a_name_is_for_the_operators_networks_only() -> None:
    target = target_of("http://hooks.example.com/", INSIDE)
    assert check_addresses([ipaddress.ip_address("10.1.0.9")], target, INSIDE)
    for address in ("93.184.215.14", "127.0.0.1", "10.2.0.1"):
        with pytest.raises(WebhookRejected):
            check_addresses([ipaddress.ip_address(address)], target, INSIDE)


@pytest.mark.parametrize("url", ["http://localhost:9/x", "http://127.0.0.1:9/", "http://127.0.0.200:9/"])
def test_loopback_is_for_trying_out(url: str) -> None:
    loopback = [ipaddress.ip_address("127.0.0.1")]
    assert check_addresses(loopback, target_of(url, TRIED_OUT), TRIED_OUT) == loopback
    with pytest.raises(WebhookRejected):
        target_of(url, PUBLIC)
    with pytest.raises(WebhookRejected):
        check_addresses([ipaddress.ip_address("93.184.215.14")], target_of(url, TRIED_OUT), TRIED_OUT)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_networks_of_the_operators_are_allowed_and_their_neighbours_are_not(scheme: str) -> None:
    assert target_of(f"{scheme}://10.1.2.3/", INSIDE)
    assert target_of(f"{scheme}://[fd12::1]/", INSIDE)
    assert target_of(f"{scheme}://[::ffff:10.1.2.3]/", INSIDE)
    for host in ("10.2.0.1", "[fd13::1]", "127.0.0.1", "169.254.169.254"):
        with pytest.raises(WebhookRejected):
            target_of(f"{scheme}://{host}/", INSIDE)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:169.254.169.254"], ["64:ff9b::a9fe:a9fe"],
        ["93.184.215.14", "10.0.0.1"], ["fe80::1"], ["0.1.2.3"],
    ],
)  # fmt: skip
def test_a_name_that_stands_for_an_inner_address_is_not_called(addresses: list[str]) -> None:
    target = target_of("https://hooks.example.com/", PUBLIC)
    with pytest.raises(WebhookRejected):
        check_addresses(map(ipaddress.ip_address, addresses), target, PUBLIC)


# --- calls ------------------------------------------------------------------------------------------------------------


def resolving(*answers: list[str]) -> tuple[Callable[[str, int], Awaitable[list[Address]]], list[str]]:
    """A name server that changes its mind with each question, and what it was asked."""
    left, asked = list(answers), list[str]()

    async def resolve(host: str, port: int) -> list[Address]:
        await asyncio.sleep(0)
        asked.append(f"{host}:{port}")
        return [ipaddress.ip_address(text) for text in left.pop(0)]

    return resolve, asked


def test_a_name_that_is_bound_anew_is_asked_once_and_the_checked_address_is_called() -> None:
    async def scenario() -> None:
        async with receiving() as receiver:
            policy = Policy(networks=networks_of("127.0.0.1/32"))
            resolve, asked = resolving(["127.0.0.1"], ["127.0.0.2"])
            caller = Caller(policy, resolve)
            target = target_of(f"http://rebound.example:{receiver.port}/hook", policy)
            answered = await caller.call(target, [("X-A", "b")], b"{}", 5)
            assert (answered.status, asked) == (200, [f"rebound.example:{receiver.port}"])
            call = await receiver.next()
            assert call.headers["host"] == f"rebound.example:{receiver.port}"
            assert call.headers["x-a"] == "b"
            with pytest.raises(CallFailed, match="https"):  # now it stands for an address outside
                await caller.call(target, [], b"{}", 5)
            assert receiver.calls.empty()
            caller.close()

    asyncio.run(scenario())


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async def scenario() -> None:
        async with receiving() as inner, receiving(lambda _: said(307, location=inner.url)) as outer:
            caller = Caller(TRIED_OUT)
            answered = await caller.call(target_of(outer.url, TRIED_OUT), [], b"{}", 5)
            assert answered.status == 307
            assert inner.calls.empty()
            caller.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "closed"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"x" * 200_000, "more than"),
        (b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"y" * 100_000 + b"\r\n\r\n", "no HTTP|more than"),
    ],
)
def test_what_is_no_answer_is_a_failure(answer: bytes | None, why: str) -> None:
    async def scenario() -> None:
        async with receiving(lambda _: answer) as receiver:
            caller = Caller(TRIED_OUT)
            with pytest.raises(CallFailed, match=why):
                await caller.call(target_of(receiver.url, TRIED_OUT), [], b"{}", 10)
            caller.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ],
)
def test_every_form_of_an_answer_is_read(answer: bytes) -> None:
    async def scenario() -> None:
        async with receiving(lambda _: answer) as receiver:
            caller = Caller(TRIED_OUT)
            answered = await caller.call(target_of(receiver.url, TRIED_OUT), [], b"{}", 10)
            assert (answered.status, answered.body) == (200, b"hello")
            caller.close()

    asyncio.run(scenario())


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a receiver called `hooks.example` shows; the node trusts who signed it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "key.pem").write_bytes(private)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context


def test_the_certificate_has_to_be_of_the_name_and_not_of_the_address(certificate: ssl.SSLContext) -> None:
    policy = Policy(networks=networks_of("127.0.0.1/32"))

    async def scenario() -> None:
        async with receiving(tls=certificate) as receiver:
            resolve, _ = resolving(["127.0.0.1"], ["127.0.0.1"])
            caller = Caller(policy, resolve)
            target = target_of(f"https://hooks.example:{receiver.port}/hook", policy)
            assert (await caller.call(target, [], b"{}", 10)).status == 200
            assert (await receiver.next()).headers["host"] == f"hooks.example:{receiver.port}"
            with pytest.raises(CallFailed, match=r"(?i)certificate"):
                await caller.call(target_of(f"https://other.example:{receiver.port}/hook", policy), [], b"{}", 10)
            assert receiver.calls.empty()
            caller.close()

    asyncio.run(scenario())


def test_a_name_server_that_is_silent_holds_up_nobody_else() -> None:
    async def scenario() -> None:
        never = asyncio.Event()

        async def resolve(host: str, _port: int) -> list[Address]:
            if host == "silent.example":
                await never.wait()
            return [ipaddress.ip_address("127.0.0.1")]

        async with receiving() as receiver:
            policy = Policy(networks=networks_of("127.0.0.1/32"))
            caller = Caller(policy, resolve)
            silent = target_of(f"http://silent.example:{receiver.port}/", policy)
            waiting = [asyncio.create_task(caller.call(silent, [], b"{}", 0.5)) for _ in range(20)]
            answered = await caller.call(target_of(f"http://quick.example:{receiver.port}/", policy), [], b"{}", 10)
            assert answered.status == 200
            for failed in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(failed, CallFailed)
            caller.close()

    asyncio.run(scenario())


def test_a_receiver_that_says_nothing_is_left_in_time() -> None:
    async def scenario() -> None:
        async with receiving() as receiver:
            receiver.open.clear()
            caller = Caller(TRIED_OUT)
            with pytest.raises(CallFailed, match=r"within 0\.2 s"):
                await caller.call(target_of(receiver.url, TRIED_OUT), [], b"{}", 0.2)
            receiver.open.set()
            caller.close()

    asyncio.run(scenario())
