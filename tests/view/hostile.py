"""Texts that try to become markup, script, a request or another text in a page: 200 and more, made of parts."""

from __future__ import annotations

_URLS = ("http://127.0.0.1:9/x", "//evil.example/x", "javascript:alert(1)", "data:text/html,<script>alert(1)</script>")
_TAGS = (
    "<script>alert(1)</script>",
    "<script src={url}></script>",
    "<img src={url}>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><use href={url}></svg>",
    "<iframe src={url}></iframe>",
    "<object data={url}></object>",
    "<embed src={url}>",
    "<link rel=stylesheet href={url}>",
    "<meta http-equiv=refresh content='0;url={url}'>",
    "<base href={url}>",
    "<form action={url}><button>go</button></form>",
    "<a href={url}>go</a>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<style>@import '{url}';</style>",
    "<video><source src={url} onerror=alert(1)></video>",
    "<math><mtext><script>alert(1)</script></mtext></math>",
    "<input autofocus onfocus=alert(1)>",
)
_BREAKERS = (
    "",
    "\"'>",
    "</pre></details></main>",
    "</style>",
    "</title>",
    "-->",
    "]]>",
    "</svg>",
    "&#60;/span&#62;",
    "\u202e",
)
_OTHERS = (
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#x3c;script&#x3e;alert(1)&#x3c;/script&#x3e;",
    "\x1b]8;;http://127.0.0.1:9/x\x07link\x1b]8;;\x07",
    "\ufeff<script>alert(1)</script>",
    "<scr\x00ipt>alert(1)</scr\x00ipt>",
    "<!--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "```\n</pre><script>alert(1)</script>\n```",
    "' onmouseover='alert(1)",
    '" style="background:url(//evil.example/x)',
    "url(javascript:alert(1))",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "\u2066<b>\u2069 isolates",
    "<" * 300 + "b" + ">" * 300,
)
HOSTILE: tuple[str, ...] = (
    *(
        f"{breaker}{tag.format(url=_URLS[number % 4])} t{number}"
        for number, tag in enumerate(_TAGS)
        for breaker in _BREAKERS
    ),
    *_OTHERS,
)
