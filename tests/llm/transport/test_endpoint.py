from __future__ import annotations

from friday_cli.llm.transport import Endpoint

KEY = "sk-ant-api03-0123456789abcdef"


def endpoint(**more: object) -> Endpoint:
    given = {
        "service": "anthropic",
        "base_url": "https://api.example.org",
        "headers": {"authorization": f"Bearer {KEY}"},
    }
    return Endpoint(**{**given, **more})  # type: ignore[arg-type]


def test_no_key_in_any_text_of_it() -> None:
    shown = endpoint(base_url="https://user:hunter2222@h.example/v1?code=abcdefgh", options={"api_key": "topsecret1"})
    for text in (
        repr(shown),
        str(shown),
        f"{shown}",
        shown.rate_limit_key,
        repr(list(shown.__rich_repr__())),
        shown.host,
    ):
        for secret in (KEY, "hunter2222", "abcdefgh", "topsecret1"):
            assert secret not in text
    assert repr(endpoint()) == "Endpoint('anthropic', 'api.example.org')"


def test_lane_is_one_per_service_and_key() -> None:
    assert endpoint().rate_limit_key == endpoint(idle_s=1.0).rate_limit_key
    assert endpoint().rate_limit_key != endpoint(headers={"authorization": "Bearer another-key-1234"}).rate_limit_key
    assert endpoint().rate_limit_key != endpoint(base_url="https://other.example.org").rate_limit_key
    assert endpoint().rate_limit_key.startswith("anthropic-")


def test_redact_takes_out_known_and_likely_keys_and_leaves_words_alone() -> None:
    text = f"no: {KEY}; Bearer {KEY}; sk-proj-ab****xyz9; eyJhbGciOiJI.eyJzdWIiOi.x; curl https://api.example.org/v1"
    assert endpoint().redact(text) == "no: [key]; Bearer [key]; [key]; [key]; curl https://api.example.org/v1"
    assert endpoint(headers={"x-api-key": "plainkey77"}).redact("got plainkey77") == "got [key]"
    words = "the skipped-tests-folder, risk-free-things and pk tables are fine; max_tokens: 128000"
    assert endpoint().redact(words) == words
    words = "Missing Bearer authentication in header; the Bearer token is invalid"
    assert endpoint().redact(words) == words
    assert endpoint().redact("Bearer abc123def456") == "Bearer [key]"


def test_urls() -> None:
    assert endpoint(base_url="http://h:1/v1/").url("/messages") == "http://h:1/v1/messages"
    assert endpoint(base_url="http://h/v1?api-version=2").url("/chat") == "http://h/v1/chat?api-version=2"
    assert endpoint(base_url="http://u:p@h:1/v1").host == "h:1"
