from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.core.text.sanitize import mask, sanitize, sanitize_line, show_invisible

NASTY = st.text(
    st.one_of(
        st.sampled_from("\x1b\x9b\x9d\x90\x07\\[]PX^_;0;31m\r\n\t\b\x7f\u202e\u200b\u200d\ufeff\ud800ab漢\U000e0041"),
        st.characters(),
    )
)


@pytest.mark.parametrize(("text", "shown"), [
    ("plain\ttext\nand 漢字 é", "plain\ttext\nand 漢字 é"), ("\x1b[1;31mred\x1b[0m", "red"), ("\x9b31mred", "red"),
    ("\x1b]0;title\x07x", "x"), ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"), ("\x9d52;c;Zm9v\x9cx", "x"),
    ("\x1bP+q544e\x1b\\x", "x"), ("\x1b_Gpayload\x1b\\x", "x"), ("\x1b^private\x1b\\x\x1bXsos\x1b\\y", "xy"),
    ("\x1bc\x1b(B\x1b7x", "x"), ("a\x07\x08\x7fb", "ab"), ("safe\rrm -rf", "safe\nrm -rf"), ("one\r\ntwo", "one\ntwo"),
    ("a\x0bb\x0cc\x85d\u2028e", "a b c\nd\ne"), ("a\u202ecod\u2066.exe", "acod.exe"),
    ("pass\u200bword\u2060\ufeff\xad", "password"), ("tag\U000e0041\U000e007f", "tag"),
    ("lone \ud83d half", "lone \ufffd half"), ("می\u200cخواهم", "می\u200cخواهم"),
    ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"), ("a\u200db\u200d\u200d", "ab"),
])  # fmt: skip
def test_plain(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_a_sequence_that_never_ends_hides_nothing() -> None:
    assert sanitize("\x1b]0;the rest of the file") == "]0;the rest of the file"
    assert sanitize("\x1b[3\n1m all") == "[3\n1m all"
    assert sanitize("\x1b]0;\x1b[31mx\x07y") == "]0;xy"


def test_white_space_that_is_not_kept_becomes_a_blank() -> None:
    assert sanitize("a\tb\r\nc\rd", keep="") == "a b c d"
    assert sanitize("a\tb\nc", keep="\n") == "a b\nc"


@given(NASTY)
def test_nothing_plain_steers_a_terminal(text: str) -> None:
    shown = sanitize(text)
    assert not [
        c for c in shown if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000
    ]
    assert not set(shown) & set("\u200b\u200e\u200f\u202a\u202e\u2066\u2069\u061c\ufeff")
    assert sanitize(shown) == shown


@given(st.text("abc 漢é.,-_/\n\t", max_size=50))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert sanitize(text) == text
    assert show_invisible(text) == text


@given(NASTY)
def test_visible_spells_out_and_leaves_nothing_away(text: str) -> None:
    shown = show_invisible(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
    kept = "".join(show_invisible(c) for c in text if c.isalnum())  # a Hangul filler is one, and hidden
    rest = iter(shown)
    assert all(c in rest for c in kept)


def test_visible_shows_what_hides() -> None:
    assert (
        show_invisible("ls\x1b[8m; rm\r\u202e \u200b\ud800\U000e0041")
        == "ls\\x1b[8m; rm\\x0d\\u202e \\u200b\\ud800\\U000e0041"
    )


@pytest.mark.parametrize(
    "text", ["\x1b]0;" * 250_000, "\x1b[" + "1" * 1_000_000, "\x9d" * 1_000_000, "\x1b " * 500_000]
)
def test_a_megabyte_of_openings_is_read_once(text: str) -> None:
    """Quadratic matching would run into the suite's time limit by hours."""
    assert "\x1b" not in sanitize(text)


def test_one_line() -> None:
    assert sanitize_line("  Fix\n the\x1b[31m bug\t now ") == "Fix the bug now"
    assert sanitize_line("word " * 40, 20) == "word word word word…"
    assert len(sanitize_line("x" * 1_000_000)) == 80


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a" * 30,
        *(f"{kind}ABCDEFGHIJKLMNOP" for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
        *(
            f"{kind}_{'a1B2' * 9}"
            for kind in ("gho", "ghu", "ghs", "ghr", "npm", "rk_test", "shpat", "shpca", "shppa", "shpss")
        ),
        "glpat-" + "a-b_" * 6,
        "sk-" + "proj-" + "a_b-" * 10,
        "sk-" + "ant-api03-" + "z" * 50,
        "xoxb-" + "1" * 12 + "-abcdef",
        "AIza" + "B" * 35,
        "sk_" + "live_" + "4" * 24,
        "hf_" + "c" * 34,
        "gsk_" + "a1" * 20,
        "xai-" + "a1" * 20,
        "pypi-" + "AgEIcHlwaS5vcmc" * 3,
        "dop_v1_" + "0f" * 32,
        "ya29." + "a0AfH6SMBabcdefghi",
        "SG." + "a" * 22 + "." + "b" * 43,
        "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".c2lnbmF0dXJlLXRleHQ",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk cut off",
    ],
)
def test_secrets_are_masked(secret: str) -> None:
    assert mask(f"before {secret}") == "before [secret]"
    assert mask(f'{{"key": "{secret}"').startswith('{"key": "[secret]')


@pytest.mark.parametrize(("text", "masked"), [
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[secret]"),
    ("export DB_PASSWORD='s3cretpass'", "export DB_PASSWORD='[secret]'"),
    ('{"api_key": "abcd1234efgh"}', '{"api_key": "[secret]"}'), ("password: hunter2hunter", "password: [secret]"),
    ("x;AccountKey=abcd1234EFGH==;y", "x;AccountKey=[secret];y"), ("TOKEN=sk-" + "a1" * 12, "TOKEN=[secret]"),
])  # fmt: skip
def test_what_a_name_calls_a_key_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked
    assert mask(masked) == masked


@pytest.mark.parametrize(
    "piece", ["token=", "password: a", "key='", "secret=1", "://a:", "-----BEGIN PRIVATE KEY-----"]
)
def test_a_megabyte_of_beginnings_of_keys_is_read_once(piece: str) -> None:
    assert len(mask(piece * (1_000_000 // len(piece)))) > 0


def test_credentials_in_urls_and_headers_are_masked_and_the_host_stays() -> None:
    assert mask("https://me:hunter2@host.example/x") == "https://[secret]@host.example/x"
    assert mask("Authorization: Bearer abcdefghijklmnop1234") == "Authorization: Bearer [secret]"


@pytest.mark.parametrize("text", [
    "task-list", "https://host:8080/a@b", "sk-short", "the key is eyJ", "git@github.com:a/b", "npm_config_cache",
    "password = getpass()", "token = os.environ['TOKEN1']", "PASSWORD=$DB_PASSWORD1", "max_tokens: 32000",
    "def f(password=None, token=None):", "key: value", "token: 1234567890", "input_tokens=12000, output_tokens=900",
    "secret = load_secret1(name)", "sort key=lambda1: x",
])  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text
