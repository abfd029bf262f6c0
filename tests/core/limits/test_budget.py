"""The budget tree: reservations in order of arrival, never more than is left, and the outermost limit is named."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.core.limits.budget import (
    OUTPUT_FLOOR,
    USUAL_REPLY,
    WRAP_UP_TOKENS,
    Amounts,
    Budget,
    LimitReached,
    Reservation,
)
from friday_cli.core.protocol.messages import Usage
from tests.virtual import run


def free(usage: Usage) -> float | None:
    return None


def dear(usage: Usage) -> float:
    return usage.input * 1e-6 + usage.output * 5e-6


async def reserve(budget: Budget, prompt: int = 10, want: int = 1000) -> Reservation:
    return await budget.reserve(Usage(input=prompt), want, price=free)


def running(budget: Budget) -> Budget:
    """The budget of an agent that has a run and sent a request."""
    budget.begin_run()
    budget.keep_holdback()
    return budget


def children(count: int, *, tokens: int, each: int = 10_000) -> list[Budget]:
    """Budgets of agents that run under one of `tokens`."""
    root = running(Budget("a", tokens=tokens))
    made = [root.child(f"a.{n}", tokens=each, cost=None) for n in range(1, count + 1)]
    return [running(budget) for budget in made]


async def waits(request: asyncio.Task[Reservation]) -> bool:
    await asyncio.sleep(1)
    return not request.done()


def test_a_child_gets_what_it_asks_for_but_never_more_than_is_left() -> None:
    root = running(Budget("a", tokens=10_000))
    running(root.child("a.1", tokens=2000, cost=None))
    # a tenth of each is kept for wrap-ups: 1000 of the root's, 200 of the child's
    assert root.child("a.2", tokens=50_000, cost=None).tokens.limit == 10_000 - 1000 - 200


def test_a_child_without_a_limit_gets_the_rest_and_no_limit_stays_none() -> None:
    assert running(Budget("a", tokens=10_000)).child("a.1", tokens=None, cost=None).tokens.limit == 9000
    child = Budget("a").child("a.1", tokens=None, cost=None)
    assert (child.tokens.limit, child.cost.limit, child.left("tokens")) == (None, None, float("inf"))
    assert running(Budget("a", cost=1.0)).child("a.1", tokens=None, cost=5.0).cost.limit == pytest.approx(0.9)


def test_no_child_is_made_where_nothing_useful_is_left_and_the_outermost_is_named() -> None:
    root = running(Budget("a", tokens=10_000))
    child = root.child("a.1", tokens=5000, cost=None)
    child.charge(9000, None)
    with pytest.raises(LimitReached) as reached:
        child.child("a.1.1", tokens=1000, cost=None)
    assert (reached.value.limit, reached.value.whose) == ("tokens", "a")


def test_what_a_child_spends_its_parents_spend() -> None:
    root = Budget("a", tokens=10_000, cost=1.0)
    leaf = root.child("a.1", tokens=5000, cost=0.5).child("a.1.1", tokens=1000, cost=0.1)
    leaf.charge(300, 0.05)
    assert [(b.tokens.spent, b.cost.spent) for b in leaf.levels] == [(300, 0.05)] * 3
    leaf.charge(-50, -1.0)
    assert leaf.tokens.spent == 300, "a provider that reports nonsense gives nothing back"
    leaf.charge(10, None)
    assert (leaf.tokens.spent, leaf.cost.spent) == (310, 0.05)


@pytest.mark.parametrize(
    ("spent", "whose"), [((0, 950, 0), "a.1"), ((9500, 0, 0), "a"), ((9500, 950, 90), "a"), ((0, 0, 95), "a.1.1")]
)
def test_the_outermost_budget_that_is_used_up_is_named(spent: tuple[int, int, int], whose: str) -> None:
    root = running(Budget("a", tokens=10_000))
    child = running(root.child("a.1", tokens=1000, cost=None))
    leaf = running(child.child("a.1.1", tokens=100, cost=None))
    for budget, tokens in zip((root, child, leaf), spent, strict=True):
        budget.tokens.spent += tokens
    with pytest.raises(LimitReached) as reached:
        leaf.check()
    assert reached.value.whose == whose


async def test_a_reply_that_was_cut_gets_twice_as_much_the_next_time() -> None:
    root = Budget("a", cost=1.0)
    running(root)
    one, two = (running(root.child(f"a.{n}", tokens=None, cost=None)) for n in (1, 2))
    first = await one.reserve(Usage(), 100_000, price=dear)
    second = await two.reserve(Usage(), 100_000, price=dear)
    assert second.output < 100_000
    one.settle(first, 0, 0.0)
    two.settle(second, second.output, 0.0, output=second.output)
    assert two.usual == 2 * second.output


async def test_a_usual_reply_is_reserved_and_the_reply_may_have_all_that_is_left() -> None:
    budget = running(Budget("a", tokens=10_000))
    first, second = await reserve(budget, 100, 32_000), await reserve(budget, 100, 32_000)
    assert first.amounts == second.amounts == Amounts(100 + USUAL_REPLY, 0.0)
    assert first.output == second.output == 9000 - 100, "one that fits is not cut, whatever is reserved elsewhere"
    assert (await reserve(Budget("b"), 100, 32_000)).output == 32_000
    small = await reserve(Budget("b", tokens=50_000), 100, 1000)
    assert (small.amounts.tokens, small.output) == (1100, 1000), "no more than the model can say"


@pytest.mark.parametrize(
    ("replies", "usual"), [((), 4000), ((12_000,), 12_000), ((12_000, 2000), 9500), ((400, 400), 2425), ((0,), 4000)]
)
async def test_the_usual_reply_is_learned_from_those_of_the_agent(replies: tuple[int, ...], usual: int) -> None:
    budget = Budget("a", tokens=200_000)
    for output in replies:
        budget.settle(await reserve(budget, 10, 32_000), 10 + output, None, output=output)
    assert (await reserve(budget, 10, 32_000)).amounts.tokens == 10 + usual
    assert budget.child("a.1", tokens=None, cost=None).usual == USUAL_REPLY


async def test_a_limit_in_dollars_bounds_the_output_too() -> None:
    budget = running(Budget("a", cost=0.1))
    taken = await budget.reserve(Usage(input=1000), 32_000, price=dear)
    assert taken.output == pytest.approx((0.09 - 0.001) / 5e-6, abs=1)
    assert (taken.amounts.cost, taken.usual.cost) == pytest.approx((0.09, 0.001 + USUAL_REPLY * 5e-6))
    other = asyncio.create_task(budget.reserve(Usage(input=1000), 32_000, price=dear))
    assert await waits(other), "the reply that was sent may cost all"
    budget.settle(taken, 0, 0.001)
    assert not await waits(other)
    with pytest.raises(LimitReached, match="cost limit of a"):
        await budget.reserve(Usage(input=1_000_000), 1000, price=dear)


@pytest.mark.parametrize(
    ("cap", "replies"),
    [
        (2.0, [32_000] * 5),  # there is money for all
        (0.3, [32_000, 6000, 4000, 4000, 4000]),
        (0.2, [20_000, 4000, 4000, 4000, 4000]),
    ],
)
async def test_parallel_replies_together_cost_no_more_than_a_limit_in_dollars(cap: float, replies: list[int]) -> None:
    """Each may be as long as allowed, and the first leaves a usual one to each of four others."""
    root = running(Budget("a", cost=cap))
    children = [root.child(f"a.{n}", tokens=None, cost=None) for n in range(1, 6)]
    for child in children:
        child.begin_run()
        child._has_holdback = True
    taken = [await child.reserve(Usage(), 32_000, price=dear) for child in children]
    assert [reply.output for reply in taken] == pytest.approx(replies, abs=2)
    assert sum(reply.amounts.cost for reply in taken) <= root.cost.left


async def test_one_sub_agent_near_a_limit_in_dollars_leaves_half_to_others() -> None:
    root = running(Budget("a", cost=0.1))
    child = root.child("a.1", tokens=None, cost=None)
    child.begin_run()
    taken = await child.reserve(Usage(), 32_000, price=dear)
    assert USUAL_REPLY < taken.output < 0.09 / 5e-6
    assert 0.02 < root.free.cost < taken.amounts.cost
    beside = await root.reserve(Usage(), 32_000, price=dear)
    assert beside.amounts.cost + taken.amounts.cost <= root.cost.left


async def test_requests_are_served_in_the_order_in_which_they_came() -> None:
    """A small one does not overtake a large one, but gets what those before it do not need."""
    one, two, three = children(3, tokens=18_000)  # of which 13,200 are left to requests
    taken = [await reserve(one, 1000), await reserve(one, 3000, 4000)]
    large = asyncio.create_task(reserve(two, 4000, 4000))
    small = asyncio.create_task(reserve(three, 500))
    assert await waits(large)
    assert await waits(small), "there is room for it, but it came later"
    one.settle(taken[1], 1000, None)
    assert (await large).amounts.tokens == 8000
    assert (await small).amounts.tokens == 1500


async def test_while_others_have_reserved_no_request_is_sent_with_less_than_a_usual_reply() -> None:
    one, two = children(2, tokens=7000)
    taken = await reserve(one, 300, 4000)
    shown: list[tuple[str, str]] = []

    @asynccontextmanager
    async def waiting(status: str, detail: str) -> AsyncIterator[None]:
        shown.append((status, detail))
        yield

    other = asyncio.create_task(two.reserve(Usage(input=300), 4000, price=free, waiting=waiting))
    assert await waits(other)
    assert shown == [("waiting_budget", "tokens")]
    one.settle(taken, 4300, None)
    assert await waits(other), "the wrap-up reserve of the first one may come free"
    one.release_holdback()
    assert OUTPUT_FLOOR < (await other).output < 4000, "it gets what is left when nothing more can come"


async def test_a_waiting_request_ends_when_others_used_the_budget_up() -> None:
    budget = running(Budget("a", tokens=2000))
    taken, other = await reserve(budget, 10, 800), await reserve(budget, 10, 800)
    waiting = asyncio.create_task(reserve(budget, 500, 1000))
    assert await waits(waiting)
    budget.settle(taken, 1700, None)
    budget.settle(other, 10, None)
    with pytest.raises(LimitReached):
        await waiting


async def test_when_nothing_can_come_free_the_first_wraps_up_and_the_others_get_the_rest() -> None:
    one, two, three = children(3, tokens=10_000)
    one.charge(int(one.left("tokens")) - 100, None)
    three.check()  # what the others keep may come free
    requests = [asyncio.create_task(reserve(budget, 100, 300)) for budget in (one, two)]
    assert [await waits(request) for request in requests] == [True, True], "the third one has work, and keeps tokens"
    last = asyncio.create_task(reserve(three, 100, 300))
    with pytest.raises(LimitReached):
        await requests[0]
    assert await waits(requests[1])
    one.open_holdback()
    wrap_up = await reserve(one, 100, 4000)
    assert wrap_up.output >= OUTPUT_FLOOR
    one.settle(wrap_up, 200, None)
    one.release_holdback()
    assert [(await request).amounts.tokens for request in (requests[1], last)] == [400, 400]


async def test_input_that_a_wrap_up_can_still_read_has_room() -> None:
    one, two = children(2, tokens=20_000)
    two.charge(16_000, None)
    assert (one.left("tokens"), one.room(free, 0)) == (0, 500), "half of its own reserve"
    two.release_holdback()
    assert (one.left("tokens"), one.room(free, 0)) == (1000, 1000)
    one.charge(1000, None)
    assert one.room(free, 0) == 1000 - 2 * OUTPUT_FLOOR, (
        "nothing more can come, and its reserve pays for a short answer"
    )
    one.charge(600, None)
    assert one.room(free, 0) == 0, "others have spent its reserve"


async def test_a_parent_that_waits_for_a_child_frees_nothing_for_it() -> None:
    root = running(Budget("a", tokens=20_000))
    parent = running(root.child("a.1", tokens=10_000, cost=None))
    child = running(parent.child("a.1.1", tokens=10_000, cost=None))
    child.charge(int(child.left("tokens")), None)
    with pytest.raises(LimitReached):
        child.check()
    with pytest.raises(LimitReached):
        await reserve(child)


@pytest.mark.parametrize("granted", [False, True])
async def test_a_wait_that_is_cancelled_leaves_nothing(granted: bool) -> None:
    budget = running(Budget("a", tokens=2000))
    taken = await reserve(budget, 1000, 800)
    waiting = asyncio.create_task(reserve(budget, 500, 1000))
    assert await waits(waiting)
    if granted:
        budget.settle(taken, 0, None)
    waiting.cancel()
    await asyncio.wait([waiting])
    if not granted:
        budget.settle(taken, 0, None)
    assert (budget.tokens.reserved, budget.tokens.spent) == (0, 0)
    assert (await reserve(budget, 500, 1000)).amounts.tokens == 1500


@given(seed=st.integers(0, 2**32), limit=st.integers(2000, 60_000), width=st.integers(1, 12))
@settings(max_examples=60)
def test_parallel_reservations_never_exceed_what_is_left(seed: int, limit: int, width: int) -> None:
    """Any tree, any requests side by side, honest replies: no level is ever overbooked or overspent, and all comes back."""
    rng = random.Random(seed)

    async def main() -> None:
        root = running(Budget("a", tokens=limit, cost=rng.choice([None, 0.2])))
        budgets = [root]

        def watch() -> None:
            for budget in budgets:
                for pool in (budget.tokens, budget.cost):
                    assert pool.limit is None or pool.spent + pool.reserved <= pool.limit + 1e-6
                    assert pool.reserved >= -1e-6

        async def agent() -> None:
            mine = rng.choice(budgets)
            try:
                mine = mine.child(f"{mine.path}.{len(budgets)}", tokens=rng.randint(600, limit), cost=None)
                budgets.append(running(mine))
                for _ in range(rng.randint(1, 5)):
                    taken = await mine.reserve(Usage(input=rng.randint(0, 800)), rng.randint(300, 5000), price=dear)
                    watch()
                    await asyncio.sleep(rng.random())
                    tokens, cost = (taken.amounts.tokens * rng.random(), taken.amounts.cost * rng.random())
                    mine.settle(taken, int(tokens), cost, output=rng.choice([0, rng.randint(1, 5000)]))
                    watch()
            except LimitReached:
                pass
            finally:
                mine.release_holdback()

        tasks = [asyncio.create_task(agent()) for _ in range(width)]
        await asyncio.wait(tasks)
        for task in tasks:
            task.result()
        root.release_holdback()
        for budget in budgets:
            assert abs(budget.tokens.reserved) < 1e-6
            assert abs(budget.tokens.holdback) < 1e-6
            assert abs(budget.cost.holdback) < 1e-9
        spent = sum(b.tokens.spent for b in budgets if b.path.count(".") == 1)
        assert root.tokens.spent >= spent

    run(main())


@pytest.mark.parametrize(("tokens", "kept"), [(1000, 100), (20_000, 2000), (200_000, WRAP_UP_TOKENS)])
def test_a_tenth_is_kept_for_the_wrap_up_and_at_most_so_much(tokens: int, kept: int) -> None:
    budget = running(Budget("a", tokens=tokens))
    assert budget.left("tokens") == tokens - kept
    budget.release_holdback()
    assert budget.left("tokens") == tokens
    budget.release_holdback()
    assert budget.tokens.holdback == 0, "closed once is enough"


def test_each_run_keeps_its_own_holdback_as_far_as_there_is_anything_left() -> None:
    budget = running(Budget("a", tokens=10_000))
    assert budget.tokens.holdback == 1000
    budget.charge(8500, None)
    budget.release_holdback()
    budget.keep_holdback()
    assert (budget.tokens.holdback, budget.left("tokens")) == (1000, 500)
    budget.release_holdback()
    budget.charge(1300, None)
    budget.keep_holdback()
    assert (budget.tokens.holdback, budget.left("tokens")) == (200, 0)


async def test_every_wrap_up_is_paid_when_everything_else_is_spent() -> None:
    """All come to the limit at once. Each has what was kept for it, and no neighbour uses that."""
    one, two = children(2, tokens=20_000)
    one.charge(int(one.left("tokens")), None)
    two.charge(int(two.left("tokens")), None)
    one.open_holdback()
    two.open_holdback()
    taken = [await reserve(budget, 200, 4000) for budget in (one, two)]
    assert [reservation.output for reservation in taken] == [800, 800]
    one.settle(taken[0], 1000, None)
    two.settle(taken[1], 0, None)  # a try that failed: the next one finds its reserve
    with pytest.raises(LimitReached):
        await reserve(one)
    assert (await reserve(two, 200, 4000)).output == 800
