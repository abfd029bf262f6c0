import pytest, sqlite3
from tests.e2e.test_faults import *
from tests.e2e.test_faults import CASES
@pytest.mark.parametrize("i", range(60))
def test_x(friday, i):
    case = CASES["F40 conflict 409"]
    with thinking(case.play, "responses") as brain:
        friday.reach(brain)
        ran = friday.json("what is the answer?")
    if len(brain.turns) != 6:
        db = sqlite3.connect(friday.home/"data"/"friday.db")
        for r in db.execute("select body from events where kind='attempt_failed'"): print(r[0][:300])
        assert 0
