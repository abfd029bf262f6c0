from tests.delegation.stage import Stage
from tests.engine import Say, delegate, call
from tests.virtual import virtual

@virtual
async def test_one(stage: Stage) -> None:
    stage.file("x.txt", "hello\n")
    script = {"a": [Say("", [delegate("researcher", "look")]), Say("fin")], "a.1": [Say("", [call("read_file", path="x.txt")]), Say("seen", delay_s=3)]}
    async with stage.open(script) as s:
        out = await s.session.prompt("go")
        assert out.result == "fin"
        print(s.results(), s.results("a.1"))
