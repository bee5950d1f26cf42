"""Settings: one precedence, no silent typing mistake, every problem at once, no secret in a message."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import streams_node
from streams_node.config import (
    GiB,
    KiB,
    MiB,
    Settings,
    SettingsError,
    SettingsProblem,
    describe,
    flag_of,
    is_loopback,
    load_settings,
    public_dump,
    setting_sources,
    variable_of,
)

KEY = "k" * 16
OPEN: dict[str, object] = {"no_auth": True}


def problems_of(
    flags: dict[str, object] | None = None, environ: dict[str, str] | None = None, toml_path: Path | None = None
) -> list[SettingsProblem]:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags or {}, environ or {}, toml_path)
    return list(caught.value.problems)


def names_of(problems: list[SettingsProblem]) -> set[str]:
    return {problem.name for problem in problems}


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "node.toml"


# --- precedence -----------------------------------------------------------------------------------------------------


def test_flag_wins_over_environment_wins_over_file_wins_over_default(toml: Path) -> None:
    toml.write_text("port = 1\nqueue_appends_max = 11\ncommit_rows_max = 21\n")
    environ = {"STREAMS_PORT": "2", "STREAMS_QUEUE_APPENDS_MAX": "12"}
    settings = load_settings({"port": "3", **OPEN}, environ, toml)
    assert (settings.port, settings.queue_appends_max, settings.commit_rows_max) == (3, 12, 21)
    assert settings.reader_threads == 2


def test_source_of_each_value_is_known(toml: Path) -> None:
    toml.write_text("port = 1\n")
    sources = setting_sources(OPEN, {"STREAMS_HOST": "::1"}, toml)
    assert (sources["no_auth"], sources["host"], sources["port"]) == ("--no-auth", "STREAMS_HOST", str(toml))
    assert sources["data"] == "default"


def test_file_named_by_the_environment_is_read_unless_a_flag_names_another(toml: Path, tmp_path: Path) -> None:
    toml.write_text("port = 1\nno_auth = true")
    other = tmp_path / "other.toml"
    other.write_text("port = 2\nno_auth = true")
    environ = {"STREAMS_CONFIG": str(toml)}
    assert load_settings({}, environ).port == 1
    assert load_settings({}, environ, other).port == 2


def test_flag_that_was_not_given_does_not_hide_weaker_sources() -> None:
    assert load_settings({"port": None, **OPEN}, {"STREAMS_PORT": "5"}).port == 5


def test_empty_variable_counts_as_not_set() -> None:
    settings = load_settings(OPEN, {"STREAMS_PORT": "", "STREAMS_API_KEY": ""})
    assert settings.port == 4437
    assert settings.api_key is None


def test_settings_made_in_code_never_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMS_PORT", "9")
    monkeypatch.setenv("PORT", "9")
    assert Settings(no_auth=True).port == 4437


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_all_problems_of_all_sources_are_reported_at_once(toml: Path) -> None:
    toml.write_text('host = "0.0.0.0"\nqeue_bytes_max = 3\nlog_format = "xml"\n[limits]\nx = 1\n')
    environ = {"STREAMS_API_KEY": "short", "STREAMS_NOPE": "1", "STREAMS_KEEP_ALIVE_MS": "-5"}
    found = {(problem.source, problem.name) for problem in problems_of({"port": "x"}, environ, toml)}
    assert found == {
        (str(toml), "qeue_bytes_max"),
        (str(toml), "log_format"),
        (str(toml), "limits"),
        (str(toml), "host"),
        ("STREAMS_API_KEY", "api_key"),
        ("STREAMS_NOPE", "nope"),
        ("STREAMS_KEEP_ALIVE_MS", "keep_alive_ms"),
        ("--port", "port"),
    }


def test_misspelled_name_is_an_error_that_names_the_right_one() -> None:
    (problem,) = problems_of(OPEN, {"STREAMS_QEUE_BYTES_MAX": "1"})
    assert "did you mean queue_bytes_max?" in problem.problem


def test_variable_in_lower_case_is_an_error_instead_of_a_second_spelling() -> None:
    assert names_of(problems_of(OPEN, {"STREAMS_port": "1"})) == {"STREAMS_port"}


def test_variables_of_others_are_left_alone() -> None:
    environ = {"PATH": "/bin", "MY_STREAMS_PORT": "x", "STREAMS_URL": "http://127.0.0.1:1"}
    assert load_settings(OPEN, environ).port == 4437


def test_variables_of_a_kubernetes_service_are_explained() -> None:
    problems = problems_of(OPEN, {"STREAMS_SERVICE_HOST": "10.0.0.1", "STREAMS_PORT_4437_TCP": "tcp://10.0.0.1:4437"})
    assert len(problems) == 2
    assert all("enableServiceLinks" in problem.problem for problem in problems)


def test_unreadable_file_and_broken_toml_are_problems_beside_the_others(toml: Path, tmp_path: Path) -> None:
    missing = problems_of({"port": "x", **OPEN}, {}, tmp_path / "none.toml")
    assert names_of(missing) == {"config", "port"}
    toml.write_bytes(b"port = = 3")
    assert names_of(problems_of(OPEN, {}, toml)) == {"config"}
    toml.write_bytes(b"\xff\xfe")
    assert names_of(problems_of(OPEN, {}, toml)) == {"config"}


def test_number_is_never_taken_from_a_boolean_or_a_fraction(toml: Path) -> None:
    toml.write_text("port = true\ncommit_rows_max = 1.5\nkeep_alive_ms = false\n")
    assert names_of(problems_of(OPEN, {}, toml)) == {"port", "commit_rows_max", "keep_alive_ms"}


def test_bound_is_part_of_the_message() -> None:
    (problem,) = problems_of({"append_body_bytes_max": "1B", **OPEN})
    assert problem == (
        "--append-body-bytes-max",
        "append_body_bytes_max",
        "input should be greater than or equal to 1024",
    )


def test_bad_field_does_not_make_its_neighbours_look_bad() -> None:
    problems = problems_of({"read_page_bytes": "16MiB", "read_page_bytes_max": "lots", **OPEN})
    assert names_of(problems) == {"read_page_bytes_max"}


# --- quantities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("2048", 2048), ("2KiB", 2 * KiB), ("64 MiB", 64 * MiB), ("1GiB", GiB), ("3MB", 3_000_000), ("4096B", 4096)],
)
def test_size_is_written_with_or_without_unit(text: str, size: int) -> None:
    settings = load_settings(
        {"append_body_bytes_max": text, "queue_bytes_max": "2GiB", "bodies_in_flight_bytes_max": "2GiB", **OPEN}, {}
    )
    assert settings.append_body_bytes_max == size
    assert type(settings.append_body_bytes_max) is int


@pytest.mark.parametrize(
    ("text", "ms"), [("500", 500), ("500ms", 500), ("3s", 3000), ("2m", 120_000), ("1h", 3_600_000)]
)
def test_time_is_written_with_or_without_unit(text: str, ms: int) -> None:
    assert load_settings({"long_poll_ms_max": text, **OPEN}, {}).long_poll_ms_max == ms


@pytest.mark.parametrize("text", ["1.5MiB", "64mib", "-1", "MiB", "1 000", "64MiBs", "3s", " 5", "1e6"])
def test_size_that_could_mean_two_things_is_refused(text: str) -> None:
    assert names_of(problems_of({"queue_bytes_max": text, **OPEN})) == {"queue_bytes_max"}


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_problem_never_a_crash(text: str) -> None:
    try:
        settings = load_settings({"disk_floor_bytes": text, **OPEN}, {})
    except SettingsError:
        return
    assert settings.disk_floor_bytes >= 0


# --- who may call ---------------------------------------------------------------------------------------------------


def test_node_without_key_is_refused_with_both_ways_out() -> None:
    (problem,) = problems_of()
    assert problem.name == "api_key"
    assert "STREAMS_API_KEY" in problem.problem
    assert "--no-auth" in problem.problem


def test_loopback_with_key_or_without_auth_is_allowed() -> None:
    assert load_settings({"api_key": KEY}, {}).api_key is not None
    assert load_settings(OPEN, {}).no_auth


def test_no_auth_beyond_loopback_is_refused_even_with_tls() -> None:
    flags = {"host": "0.0.0.0", "tls_by_proxy": True, "api_key": KEY, **OPEN}  # noqa: S104 that it is refused is the point
    assert names_of(problems_of(flags)) == {"no_auth"}


def test_plain_listener_beyond_loopback_is_refused_with_the_ways_out() -> None:
    (problem,) = problems_of({"host": "10.0.0.1", "api_key": KEY})
    assert problem.name == "host"
    assert "tls_certfile" in problem.problem
    assert "tls_by_proxy=true" in problem.problem


@pytest.mark.parametrize("tls", [{"tls_by_proxy": True}, {"tls_certfile": "c.pem", "tls_keyfile": "k.pem"}])
def test_listener_beyond_loopback_needs_key_and_tls_or_proxy(tls: dict[str, object]) -> None:
    assert load_settings({"host": "10.0.0.1", "api_key": KEY, **tls}, {}).host == "10.0.0.1"
    assert names_of(problems_of({"host": "10.0.0.1", **tls})) == {"api_key"}


def test_operator_listener_obeys_the_same_rules_but_only_when_it_exists() -> None:
    beyond: dict[str, object] = {"operator_host": "10.0.0.1"}
    assert load_settings({**beyond, **OPEN}, {}).operator_port is None
    assert names_of(problems_of({**beyond, "operator_port": "9", "api_key": KEY})) == {"operator_host"}
    assert names_of(problems_of({**beyond, "operator_port": "9", **OPEN})) == {"no_auth", "operator_host"}


@pytest.mark.parametrize("given_half", ["tls_certfile", "tls_keyfile"])
def test_certificate_without_key_or_key_without_certificate_is_refused(given_half: str) -> None:
    (problem,) = problems_of({given_half: "x.pem", **OPEN})
    assert problem.name == {"tls_certfile": "tls_keyfile", "tls_keyfile": "tls_certfile"}[given_half]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *[(host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")],
        *[(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "node", "localhost.example.com")],  # noqa: S104
    ],
)
def test_only_addresses_of_this_machine_are_loopback(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_operator_port_differs_from_port_unless_both_are_chosen_by_the_system() -> None:
    assert names_of(problems_of({"operator_port": "4437", **OPEN})) == {"operator_port"}
    assert load_settings({"operator_port": "0", "port": "0", **OPEN}, {}).operator_port == 0


# --- other rules between fields -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({"read_page_bytes": "9MiB"}, "read_page_bytes"),
        ({"append_body_bytes_max": "65MiB"}, "append_body_bytes_max"),
        ({"append_wait_ms_max": "6s"}, "append_wait_ms_max"),
        ({"live_waiters_max": "24001"}, "live_waiters_max"),
        ({"object_store_folder": "x", "object_store": "s3"}, "object_store_folder"),
    ],
)
def test_limits_that_defeat_each_other_are_refused(flags: dict[str, object], name: str) -> None:
    assert names_of(problems_of({**flags, **OPEN})) == {name}


def test_settings_made_in_code_obey_the_rules_between_fields() -> None:
    with pytest.raises(ValidationError, match="no_auth: only allowed on loopback"):
        Settings(no_auth=True, host="10.0.0.1")


def test_objects_live_inside_data_unless_said_otherwise() -> None:
    assert load_settings({"data": "d", **OPEN}, {}).objects_folder == Path("d/objects")
    assert load_settings({"data": "d", "object_store_folder": "o", **OPEN}, {}).objects_folder == Path("o")


@pytest.mark.parametrize(
    "url", ["example.com", "ftp://x", "https://x/?a", "https://user:secret@x", "https://", "http://["]
)
def test_public_url_is_a_base_address_without_credentials(url: str) -> None:
    (problem,) = problems_of({"public_url": url, **OPEN})
    assert problem.name == "public_url"
    assert "secret" not in problem.problem


def test_public_url_loses_its_last_slash() -> None:
    assert load_settings({"public_url": "https://x.example/", **OPEN}, {}).public_url == "https://x.example"


# --- secrets --------------------------------------------------------------------------------------------------------


def test_secret_is_masked_wherever_settings_are_printed() -> None:
    settings = load_settings({"api_key": "topsecret-topsecret"}, {})
    assert public_dump(settings)["api_key"] == "***"
    assert "topsecret" not in f"{settings!r} {settings} {json.dumps(public_dump(settings))}"


@pytest.mark.parametrize(
    "key", ["topsecret", "topsecret with spaces", "topsecret-topsecret-ü", "topsecret-topsecret\n"]
)
def test_refused_key_is_not_quoted_in_the_message(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {"STREAMS_API_KEY": key})
    assert "topsecret" not in str(caught.value)
    with pytest.raises(ValidationError) as direct:
        Settings.model_validate({"api_key": key})
    assert "topsecret" not in str(direct.value)


# --- the table ------------------------------------------------------------------------------------------------------


def test_every_setting_has_a_reason_and_a_unit_in_its_name_if_it_is_a_quantity() -> None:
    for row in describe():
        assert row.reason.endswith(".")
        if row.unit in {"bytes", "ms"}:
            assert f"_{row.unit}" in row.name
        if Settings.model_fields[row.name].annotation is int and "port" not in row.name:
            assert row.unit


def test_defaults_in_the_table_read_back_as_the_defaults() -> None:
    shown = {row.name: row.default for row in describe() if row.default != "none"}
    settings = load_settings({**shown, **OPEN}, {})
    assert settings == Settings(no_auth=True)


def test_flags_and_variables_are_made_from_names() -> None:
    assert flag_of("append_body_bytes_max") == "--append-body-bytes-max"
    assert variable_of("append_body_bytes_max") == "STREAMS_APPEND_BODY_BYTES_MAX"


def test_public_dump_is_json_and_complete() -> None:
    dump = json.loads(json.dumps(public_dump(Settings(no_auth=True))))
    assert dump.keys() == Settings.model_fields.keys()


def test_settings_can_not_be_changed_after_they_were_judged() -> None:
    settings = Settings(no_auth=True)
    with pytest.raises(ValidationError):
        settings.host = "0.0.0.0"  # noqa: S104


def test_importing_settings_loads_no_server_and_no_client() -> None:
    heavy = {"litestar", "uvicorn", "httpx", "rich", "structlog", "aiosqlite"}
    code = f"import sys, streams_node.config; print({heavy!r} & sys.modules.keys())"
    root = Path(streams_node.__file__).parents[1]
    outcome = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root)
    assert outcome.stdout == "set()\n"
