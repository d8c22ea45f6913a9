# SPDX-License-Identifier: Apache-2.0
"""The gateway that asks rationd over a network: the password it shows, and TLS."""

import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import threading

import pytest

from daemon import PATIENCE, ROOT, free_port, wait_for
from gateway import GIF, MODULE, SANITIZED, begin, proxied
from nginx_rationd import OURS, PATIENT, THEIRS, UP, answers
from test_tls import Authority, has_tls

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")
tls = pytest.mark.skipif(not has_tls(), reason="this build has no TLS")

SECRET = "tr0ub4dor&3"


def password(folder, text=SECRET + "\n", mode=0o600):
    file = folder / "password"
    file.write_text(text)
    file.chmod(mode)
    return f"password_file={file}"


def by_ourselves(g):
    """No word of rationd's: our own rules decide."""
    assert g.statuses(3) == [200, 200, 429]
    assert "source=rationd" not in g.log("source")


# --- the password -----------------------------------------------------------------------

def test_the_password_is_shown_before_anything_else_and_never_logged(asking, rationd, tmp_path):
    d = rationd(env={"RATION_ADMIN_TOKEN": SECRET})
    g = answers(asking(d.address, parameters=f"{PATIENT} {password(tmp_path)}", log_level="debug"))
    assert g.statuses(6) == [200] * 5 + [429]
    assert "source=zone" not in g.log("source")
    assert SECRET not in g.log("error") + g.log("source") + "".join(d.log)


def test_the_password_is_sent_first(asking, fake, tmp_path):
    server = fake(lambda data: b"+OK\r\n+PONG\r\n" if b"AUTH" in data else b"-ERR later\r\n", pings=False)
    answers(asking(server.address, parameters=password(tmp_path, "a b\r\n")))
    assert server.seen[0].startswith(b"*2\r\n$4\r\nAUTH\r\n$3\r\na b\r\n*1\r\n$4\r\nPING\r\n")


@pytest.mark.parametrize("token", ["another", None])
def test_a_refused_password_is_logged_once_and_the_rules_decide(asking, rationd, tmp_path,
                                                                           token):
    d = rationd(env={"RATION_ADMIN_TOKEN": token} if token else None)
    g = asking(d.address, parameters=f"{PATIENT} {password(tmp_path)}", log_level="error")
    g.wait_for_log("refuses the password of password_file=; until it answers again", "error")
    by_ourselves(g)
    wait_for(lambda: accepted(d) >= 3, "it is tried again")
    assert g.log("error").count("rationd at") == 1 and SECRET not in g.log("error")


def accepted(d):
    text = d.admin("GET", "/metrics").text
    return int(text.split('connections_accepted_total{listener="resp"} ')[1].split()[0])


def test_a_server_that_repeats_the_password_does_not_bring_it_into_the_log(asking, fake, tmp_path):
    server = fake(lambda _: f"-ERR unknown command 'AUTH', with args: '{SECRET}'\r\n".encode(), pings=False)
    g = asking(server.address, parameters=password(tmp_path))
    g.wait_for_log("refuses the password", "error")
    by_ourselves(g)
    assert SECRET not in g.log("error")


def test_a_server_that_wants_a_password_has_its_own_message(asking, fake):
    g = asking(fake(lambda _: b"-NOAUTH who are you\r\n", pings=False).address)
    g.wait_for_log("wants a password; name its file with password_file=; until", "error")
    by_ourselves(g)


def test_a_new_password_is_read_at_a_reload(asking, rationd, tmp_path):
    d = rationd(env={"RATION_ADMIN_TOKEN": SECRET})
    g = asking(d.address, parameters=f"{PATIENT} {password(tmp_path, 'old')}")
    g.wait_for_log("refuses the password", "error")
    password(tmp_path)
    g.reload()
    g.wait_for_log(UP, "error")
    wait_for(lambda: g.ask("/new") and "/new verdict=allowed rule=api source=rationd" in g.log("source"),
               "new workers ask")


@pytest.mark.parametrize("text, why", [
    ("", "is empty; write the password into it, as one line"),
    ("\n", "is empty"), ("\r\n", "is empty"),
    ("one\ntwo\n", "has several lines"),
    ("x" * 4097, "has more than 4096 bytes"),
    (None, "cannot be read (2: No such file or directory)"),
])
def test_an_error_about_a_file_without_a_password_names_its_place(asking, tmp_path, text, why):
    if text is not None:
        password(tmp_path, text)
    code, said = asking("127.0.0.1", parameters="password_file=password", start=False).test()
    assert code != 0 and f'the file of "password_file={tmp_path}/password" {why}' in said
    assert "nginx.conf:" in said


def test_a_file_that_cannot_be_read_is_reported(asking, tmp_path):
    code, said = asking("127.0.0.1", parameters=f"password_file={tmp_path}", start=False).test()
    assert code != 0 and "cannot be read (21: Is a directory)" in said
    os.mkfifo(tmp_path / "fifo")
    code, said = asking("127.0.0.1", parameters=f"password_file={tmp_path}/fifo", start=False).test()
    assert code != 0 and "is empty" in said


def test_a_world_readable_password_draws_a_warning(asking, tmp_path):
    code, said = asking("127.0.0.1", parameters=password(tmp_path, mode=0o644), start=False).test()
    assert code == 0 and "can be read by every user of this machine" in said and SECRET not in said
    assert "warn" not in asking("127.0.0.1", parameters=password(tmp_path), start=False).test()[1]


def test_one_address_asked_in_two_ways_is_two_servers(asking, rationd, tmp_path):
    d = rationd(env={"RATION_ADMIN_TOKEN": SECRET})
    g = asking(d.address, server=f"""ration on; location / {{ empty_gif; }}
        location /wrong {{ ration_server {d.address} {PATIENT} {password(tmp_path, "wrong")};
                           empty_gif; }}""")
    g.wait_for_log(UP, "error")
    g.wait_for_log("refuses the password", "error")
    assert [g.ask(path)[0] for path in ("/", "/wrong")] == [200] * 2
    g.wait_for_log("/ verdict=allowed rule=api source=rationd", "source")
    g.wait_for_log("/wrong verdict=allowed rule=own source=zone", "source")


# --- TLS: the directive ------------------------------------------------------------------------

@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    for name in ("server", "nginx"):
        made.sign(name)
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("stranger"), "stranger")
    made.sign("server")
    made.sign("nginx")
    return made


def trust(authority, more=""):
    return f"{PATIENT} ssl_trusted_certificate={authority.file} {more}"


def shows(authority, name="nginx"):
    return (f"ssl_certificate={authority.folder}/{name}.pem "
            f"ssl_certificate_key={authority.folder}/{name}.key")


@pytest.mark.parametrize("asked, message", [
    ("tls://127.0.0.1", "needs ssl_trusted_certificate=FILE: the authority that has signed"),
    ("tls://unix:/run/r.sock ssl_trusted_certificate=AUTHORITY", "Unix sockets do not need TLS"),
    ("tls://", 'no host in "tls://"; write off, unix:PATH or host:port'),
    ("tls://127.0.0.1 ssl_trusted_certificate=/none.pem", '"ssl_trusted_certificate=/none.pem" cannot be used'),
    ("tls://127.0.0.1 ssl_trusted_certificate=AUTHORITY ssl_certificate=x",
     '"ssl_certificate=" and "ssl_certificate_key=" go together'),
    ("tls://127.0.0.1 ssl_trusted_certificate=AUTHORITY ssl_certificate=/x ssl_certificate_key=/y",
     '"ssl_certificate=/x" cannot be used with "ssl_certificate_key=/y"'),
    ("127.0.0.1 ssl_trusted_certificate=AUTHORITY",
     '"ssl_trusted_certificate" is for an address with TLS; write tls://127.0.0.1'),
    ("127.0.0.1 ssl_name=x", '"ssl_name" is for an address with TLS'),
    ("tls://127.0.0.1 ssl_trusted_certificate=AUTHORITY ssl_name=a ssl_name=b",
     'invalid parameter "ssl_name=b"'),
    ("tls://127.0.0.1 ssl_verify=off", 'invalid parameter "ssl_verify=off"'),
])
def test_a_mistake_about_tls_is_reported(asking, authority, asked, message):
    asked = asked.replace("AUTHORITY", str(authority.file))
    code, text = asking("", start=False, http=f"ration_server {asked};").test()
    assert code != 0 and message in text and "nginx.conf:" in text


def test_the_example_of_the_documentation_is_a_configuration(asking, authority):
    text = (ROOT / "docs" / "nginx.md").read_text().split("### Over a network")[1]
    example = text.split("```nginx\n")[1].split("```")[0].replace("ration.internal", "localhost")
    for name, file in (("ration-ca.pem", authority.file), ("ration.pem", authority.folder / "nginx.pem"),
                       ("ration.key", authority.folder / "nginx.key")):
        assert f"/etc/nginx/{name}" in example
        example = example.replace(f"/etc/nginx/{name}", str(file))
    code, said = asking("", start=False, http=example).test()
    assert code == 0, said


# --- TLS: connections --------------------------------------------------------------------

@pytest.fixture
def secured(rationd, authority):
    """Makes a rationd that speaks TLS."""
    def make(rules=THEIRS, signed_by=authority, more=(), host="127.0.0.1", **others):
        return rationd(rules, resp=f"{host}:{free_port()}", options=[
            "--tls-cert", signed_by.folder / "server.pem", "--tls-key", signed_by.folder / "server.key",
            "--tls", "resp", *more], **others)

    return make


def expect_distrust(g, why):
    """Nothing is asked, our rules decide, and one line says why."""
    g.wait_for_log(why, "error")
    by_ourselves(g)
    assert g.log("error").count("rationd at") == g.log("error").count("; until it answers again") == 1


@tls
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_rationd_decides_over_tls(asking, secured, authority, host):
    d = secured()
    port = d.address.rpartition(":")[2]
    g = answers(asking(f"tls://{host}:{port}", parameters=trust(authority)))
    assert g.statuses(6) == [200] * 5 + [429]
    g.wait_for_log("429 / verdict=refused rule=api source=rationd", "source")
    assert "source=zone" not in g.log("source")


@tls
def test_a_name_given_for_the_certificate_is_looked_for(asking, secured, authority):
    g = answers(asking(f"tls://{secured().address}", parameters=trust(authority, "ssl_name=localhost")))
    assert g.statuses(6) == [200] * 5 + [429]


@tls
@pytest.mark.parametrize("name, why", [
    ("ration.internal", 'is not trusted for "ration.internal" (hostname mismatch)'),
    ("127.0.0.2", 'is not trusted for "127.0.0.2" (IP address mismatch)'),
])
def test_a_certificate_for_another_name_is_not_trusted(asking, secured, authority, name, why, tmp_path):
    d = secured(env={"RATION_ADMIN_TOKEN": SECRET})
    g = asking(f"tls://{d.address}",
               parameters=trust(authority, f"ssl_name={name} {password(tmp_path)}"))
    expect_distrust(g, why)


@tls
@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_address_of_ipv6_is_looked_for_without_its_brackets(asking, secured, authority):
    d = secured(host="[::1]")
    g = asking(f"tls://{d.address}", parameters=trust(authority))
    expect_distrust(g, 'is not trusted for "::1" (IP address mismatch)')


@tls
def test_a_certificate_of_another_authority_is_not_trusted(asking, secured, authority, stranger):
    g = asking(f"tls://{secured(signed_by=stranger).address}", parameters=trust(authority))
    expect_distrust(g, 'is not trusted for "127.0.0.1" (unable to ')


@tls
def test_neither_password_nor_header_is_sent_to_an_untrusted_server(asking, authority, stranger, tmp_path):
    """Neither the password nor a header of a client."""
    heard, connections = [], []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stranger.folder / "server.pem", stranger.folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as s:
                        connections.append(s)
                        while data := s.recv(4096):
                            heard.append(data)

        threading.Thread(target=serve, daemon=True).start()
        port = listener.getsockname()[1]
        g = asking(f"tls://127.0.0.1:{port}", parameters=trust(authority, password(tmp_path)))
        by_ourselves(g)
        wait_for(lambda: len(connections) >= 2, "it is tried twice")
    assert heard == []


@tls
def test_a_server_without_tls_is_not_asked(asking, rationd, authority):
    d = rationd(resp=f"127.0.0.1:{free_port()}")
    expect_distrust(asking(f"tls://{d.address}", parameters=trust(authority)), "does not agree on TLS")


@tls
def test_a_server_with_tls_is_not_asked_without(asking, secured):
    g = asking(secured().address)
    g.wait_for_log("until it answers again", "error")
    by_ourselves(g)


@tls
def test_a_server_that_is_not_there_is_reported_as_without_tls(asking, authority):
    g = asking(f"tls://127.0.0.1:{free_port()}", parameters=trust(authority))
    g.wait_for_log("cannot be reached; until it answers again", "error")
    assert "(111: " in g.log("error")
    by_ourselves(g)


@tls
def test_a_rationd_that_knows_its_clients_by_certificate_knows_nginx(asking, secured, authority,
                                                                    stranger):
    d = secured(more=["--tls-client-ca", authority.file])
    address = f"tls://{d.address}"
    g = asking(address, parameters=trust(authority, shows(authority)), server=f"""ration on;
        location / {{ empty_gif; }}
        location /nobody {{ ration_server {address} {trust(authority)}; empty_gif; }}
        location /other {{ ration_server {address} {trust(authority, shows(stranger))}; empty_gif; }}""")
    g.wait_for_log(UP, "error")
    g.wait_for_log("it may want a client certificate (ssl_certificate=); until", "error", 2)
    assert [g.ask(path)[0] for path in ("/", "/nobody", "/other")] == [200] * 3
    g.wait_for_log(" / verdict=allowed rule=api source=rationd", "source")
    for path in ("/nobody", "/other"):
        g.wait_for_log(f"{path} verdict=allowed rule=own source=zone", "source")


@tls
def test_a_rationd_that_restarts_is_asked_again(asking, secured, authority):
    d = secured("limits:\n  - {name: api, key: ip, limit: 1000 per 7 days}\n")
    g = answers(asking(f"tls://{d.address}", parameters=trust(authority)))
    assert g.statuses(3, "/one") == [200] * 3
    d.kill()
    g.wait_for_log("until it answers again", "error")
    assert g.statuses(3, "/two") == [200, 200, 429]
    d.start()
    g.wait_for_log(UP, "error", 2)
    assert g.statuses(3, "/three") == [200] * 3
    g.wait_for_log("/three verdict=allowed rule=api source=rationd", "source", 3)


@tls
def test_a_handshake_that_never_ends_costs_a_request_its_patience_only(asking, authority):
    """Somebody accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        g = asking(f"tls://127.0.0.1:{listener.getsockname()[1]}",
                   parameters=f"timeout=200ms ssl_trusted_certificate={authority.file}")
        by_ourselves(g)
        g.wait_for_log("does not answer in time; until it answers again", "error")


@tls
def test_a_rationd_that_is_frozen_and_thawed_under_tls(asking, secured, authority):
    d = secured("limits:\n  - {name: api, key: ip, limit: 1000 per 7 days}\n")
    g = answers(asking(f"tls://{d.address}", "limits: []\n",
                       parameters=f"timeout=100ms ssl_trusted_certificate={authority.file}"))
    d.freeze()
    assert g.statuses(6) == [200] * 6
    g.wait_for_log("does not answer in time; until it answers again", "error")
    d.thaw()
    g.wait_for_log(UP, "error", 2)
    wait_for(lambda: g.ask("/back") and "/back verdict=allowed rule=api source=rationd" in g.log("source"),
               "it decides again")


@tls
def test_large_questions_in_great_number_arrive_whole(asking, secured, authority):
    """More at once than a socket takes: what is sent again has moved meanwhile."""
    d = secured("limits:\n  - {name: api, key: header.x-key, limit: 1000000 per 7 days}\n")
    g = answers(asking(f"tls://{d.address}", OURS % ", on_store_failure: refuse",
                       server=GIF + " large_client_header_buffers 8 64k;",
                       parameters=trust(authority)))
    d.freeze()
    waiting = [begin_large(g, i) for i in range(60)]
    wait_for(lambda: d.waiting()[1] > 0, "the socket is full")
    waiting += [begin_large(g, i) for i in range(20)]
    d.thaw()
    for s in waiting:
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        s.close()
    g.wait_for_log("verdict=allowed rule=api source=rationd", "source", 80)


def begin_large(g, i):
    s = socket.create_connection(("127.0.0.1", g.port), PATIENCE)
    s.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\nx-key: %d\r\nx-large: %s\r\n\r\n" % (i, b"v" * 60000))
    return s


@tls
def test_reloads_leave_no_connection_open(asking, secured, authority):
    d = secured("limits:\n  - {name: api, key: ip, limit: 1000 per 7 days}\n")
    g = answers(asking(f"tls://{d.address}", parameters=trust(authority, "connections=3")))
    for turn in range(3):
        g.reload()
        g.wait_for_log(UP, "error", turn + 2)
        assert g.ask()[0] == 200
    text = 'connections{listener="resp"} '
    wait_for(lambda: d.admin("GET", "/metrics").text.split(text)[1].split()[0] == "3", "three are open")
    assert "open socket" not in g.log("error")


@tls
@pytest.mark.skipif(SANITIZED is not None or not shutil.which("valgrind"), reason="needs valgrind")
def test_valgrind_finds_nothing_wrong(asking, secured, authority, stranger, upstream, tmp_path):
    d = secured(THEIRS + "  - {name: line, key: ip, limit: 1 per 7 days queue 2, when: {path: /line}}\n",
                env={"RATION_ADMIN_TOKEN": SECRET})
    address = f"tls://{d.address}"
    g = asking(address, start=False, top="master_process off;",
               parameters=trust(authority, password(tmp_path)),
               server=proxied(upstream) + f"""
        location /far {{ ration_server {address} {trust(stranger)}; empty_gif; }}
        location /plain {{ ration_server {d.address} {PATIENT}; empty_gif; }}""")
    g.start("valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite",
            f"--suppressions={pathlib.Path(__file__).parent}/nginx.supp",
            f"--log-file={g.folder}/valgrind.log")
    answers(g)
    assert g.statuses(3, "/a") == [200] * 3
    assert g.ask("/far")[0] == 200 and g.ask("/plain")[0] == 200
    assert g.ask("/line")[0] == 200
    with begin(g, "/line"):
        g.wait_for_log("delayed by", "error")
    g.wait_for_log("499 /line", "source")
    d.kill()
    g.wait_for_log("has closed the connection; until", "error")
    d.start()
    g.wait_for_log(UP, "error", 2)
    assert g.ask("/b")[0] == 200
    g.process.send_signal(3)  # SIGQUIT: a clean end
    assert g.process.wait(60) == 0
    assert (g.folder / "valgrind.log").read_text() == ""
