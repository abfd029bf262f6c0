from tests.engine import *
from tests.virtual import virtual

@virtual
async def test_it() -> None:
    bench = Bench(Model({"a": [Say("", [delegate("worker"), delegate("worker")]), Say("all done")], "*": [Say("child", delay_s=1)]}))
    outcome = await bench.prompt()
    assert outcome.status == "completed" and outcome.result == "all done"
    print(bench.results())
    print([ (e.seq, e.at, e.agent, type(e.event).__name__) for e in bench.envelopes])
    assert asyncio.get_running_loop().time() == 1.0
