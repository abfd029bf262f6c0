"""The budget tree: what is reserved never exceeds what is left, and the outermost limit is the one that is named."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.core.limits.budget import OUTPUT_FLOOR, WRAP_UP_TOKENS, Budget, LimitReached, Reservation
from friday_cli.core.protocol.messages import Usage
from tests.virtual import run


def free(usage: Usage) -> float | None:
    return None


def dear(usage: Usage) -> float:
    return usage.input * 1e-6 + usage.output * 5e-6


async def reserve(budget: Budget, prompt: int = 10, want: int = 1000) -> Reservation:
    return await budget.reserve(prompt, want, price=free)


def test_a_child_gets_what_it_asks_for_but_never_more_than_is_left() -> None:
    root = Budget("a", tokens=10_000)
    assert root.child("a.1", tokens=2000, cost=None).tokens.limit == 2000
    # a tenth of each is kept for wrap-ups: 1000 of the root's, 200 of the child's
    assert root.child("a.2", tokens=50_000, cost=None).tokens.limit == 10_000 - 1000 - 200


def test_a_child_without_a_wish_gets_the_rest_and_no_limit_stays_none() -> None:
    assert Budget("a", tokens=10_000).child("a.1", tokens=None, cost=None).tokens.limit == 9000
    child = Budget("a").child("a.1", tokens=None, cost=None)
    assert (child.tokens.limit, child.cost.limit, child.left("tokens")) == (None, None, float("inf"))
    assert Budget("a", cost=1.0).child("a.1", tokens=None, cost=5.0).cost.limit == pytest.approx(0.9)


def test_no_child_is_made_where_nothing_useful_is_left_and_the_outermost_is_named() -> None:
    root = Budget("a", tokens=10_000)
    child = root.child("a.1", tokens=5000, cost=None)
    child.charge(9000, None)
    with pytest.raises(LimitReached) as reached:
        child.child("a.1.1", tokens=1000, cost=None)
    assert (reached.value.limit, reached.value.whose) == ("tokens", "a")


def test_what_a_child_spends_its_parents_spend() -> None:
    root = Budget("a", tokens=10_000, cost=1.0)
    leaf = root.child("a.1", tokens=5000, cost=0.5).child("a.1.1", tokens=1000, cost=0.1)
    leaf.charge(300, 0.05)
    assert [(b.tokens.spent, b.cost.spent) for b in leaf.up()] == [(300, 0.05)] * 3
    leaf.charge(-50, -1.0)
    assert leaf.tokens.spent == 300, "a provider that reports nonsense gives nothing back"
    leaf.charge(10, None)
    assert (leaf.tokens.spent, leaf.cost.spent) == (310, 0.05)


@pytest.mark.parametrize(
    ("spent", "whose"), [((0, 950, 0), "a.1"), ((9500, 0, 0), "a"), ((9500, 950, 90), "a"), ((0, 0, 95), "a.1.1")]
)
def test_the_outermost_budget_that_is_used_up_is_named(spent: tuple[int, int, int], whose: str) -> None:
    root = Budget("a", tokens=10_000)
    child = root.child("a.1", tokens=1000, cost=None)
    leaf = child.child("a.1.1", tokens=100, cost=None)
    for budget, tokens in zip((root, child, leaf), spent, strict=True):
        budget.tokens.spent += tokens
    with pytest.raises(LimitReached) as reached:
        leaf.check()
    assert reached.value.whose == whose


async def test_a_request_takes_at_most_half_of_what_is_free_so_that_others_find_something() -> None:
    budget = Budget("a", tokens=10_000)
    first = await reserve(budget, 100, 32_000)
    assert first.output == (9000 - 100) // 2
    second = await reserve(budget, 100, 32_000)
    assert second.output == (9000 - 100 - first.output - 100) // 2
    assert (await reserve(Budget("b"), 100, 32_000)).output == 32_000


async def test_a_limit_in_dollars_bounds_the_output_too() -> None:
    budget = Budget("a", cost=0.1)
    taken = await budget.reserve(1000, 32_000, price=dear)
    assert taken.output == pytest.approx((0.09 - 0.001) / 5e-6 / 2, abs=1)
    assert taken.cost == pytest.approx(0.001 + taken.output * 5e-6)
    with pytest.raises(LimitReached, match="cost limit of a"):
        await budget.reserve(1_000_000, 1000, price=dear)


async def test_where_only_the_requests_of_others_stand_in_the_way_it_waits() -> None:
    budget = Budget("a", tokens=2000)
    taken = [await reserve(budget, 10, 1000), await reserve(budget, 10, 1000)]
    waiting = asyncio.create_task(reserve(budget, 1000, 1000))
    await asyncio.sleep(5)
    assert not waiting.done()
    for reservation in taken:
        budget.settle(reservation, 20, None)
    assert (await waiting).output >= OUTPUT_FLOOR


async def test_who_waits_is_told_when_others_used_it_up() -> None:
    budget = Budget("a", tokens=2000)
    taken = await reserve(budget, 10, 32_000)
    other = await reserve(budget, 10, 32_000)
    waiting = asyncio.create_task(reserve(budget, 500, 1000))
    await asyncio.sleep(1)
    budget.settle(taken, 1700, None)
    budget.settle(other, 10, None)
    with pytest.raises(LimitReached):
        await waiting


async def test_a_wait_that_is_cancelled_leaves_nothing() -> None:
    budget = Budget("a", tokens=2000)
    taken = await reserve(budget, 1000, 1000)
    waiting = asyncio.create_task(reserve(budget, 500, 1000))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.wait([waiting])
    budget.settle(taken, 0, None)
    assert (budget.tokens.reserved, budget.tokens.spent) == (0, 0)


@given(seed=st.integers(0, 2**32), limit=st.integers(2000, 60_000), width=st.integers(1, 12))
@settings(max_examples=60)
def test_parallel_reservations_never_exceed_what_is_left(seed: int, limit: int, width: int) -> None:
    """Any tree, any requests side by side, honest replies: no level is ever overbooked or overspent, and all comes back."""
    rng = random.Random(seed)

    async def main() -> None:
        root = Budget("a", tokens=limit, cost=rng.choice([None, 0.2]))
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
                budgets.append(mine)
                for _ in range(rng.randint(1, 5)):
                    taken = await mine.reserve(rng.randint(0, 800), rng.randint(300, 5000), price=dear)
                    watch()
                    await asyncio.sleep(rng.random())
                    share = rng.random()
                    mine.settle(taken, int(taken.tokens * share), taken.cost * share)
                    watch()
            except LimitReached:
                pass
            finally:
                mine.close_reserve()

        tasks = [asyncio.create_task(agent()) for _ in range(width)]
        await asyncio.wait(tasks)
        for task in tasks:
            task.result()
        root.close_reserve()
        for budget in budgets:
            assert abs(budget.tokens.reserved) < 1e-6
            assert abs(budget.tokens.kept) < 1e-6
            assert abs(budget.cost.kept) < 1e-9
        spent = sum(b.tokens.spent for b in budgets if b.path.count(".") == 1)
        assert root.tokens.spent >= spent

    run(main())


@pytest.mark.parametrize(("tokens", "kept"), [(1000, 100), (20_000, 2000), (200_000, WRAP_UP_TOKENS)])
def test_a_tenth_is_kept_for_the_wrap_up_and_at_most_so_much(tokens: int, kept: int) -> None:
    budget = Budget("a", tokens=tokens)
    assert budget.left("tokens") == tokens - kept
    budget.close_reserve()
    assert budget.left("tokens") == tokens
    budget.close_reserve()
    assert budget.tokens.kept == 0, "closed once is enough"


def test_each_run_keeps_its_own_reserve_as_far_as_there_is_anything_left() -> None:
    budget = Budget("a", tokens=10_000)
    budget.keep_reserve()
    assert budget.tokens.kept == 1000
    budget.charge(8500, None)
    budget.close_reserve()
    budget.keep_reserve()
    assert (budget.tokens.kept, budget.left("tokens")) == (1000, 500)
    budget.close_reserve()
    budget.charge(1300, None)
    budget.keep_reserve()
    assert (budget.tokens.kept, budget.left("tokens")) == (200, 0)


async def test_a_wrap_up_is_paid_when_everything_else_is_spent() -> None:
    root = Budget("a", tokens=20_000)
    child = root.child("a.1", tokens=18_000, cost=None)
    child.charge(int(root.left("tokens")), None)
    with pytest.raises(LimitReached):
        await reserve(child)
    child.open_reserve()
    assert (await reserve(child)).output >= OUTPUT_FLOOR


async def test_what_is_kept_for_one_wrap_up_is_not_taken_by_a_neighbour() -> None:
    root = Budget("a", tokens=20_000)
    one, two = (root.child(f"a.{n}", tokens=10_000, cost=None) for n in (1, 2))
    root.charge(int(root.left("tokens")), None)
    one.open_reserve()
    with pytest.raises(LimitReached):
        await reserve(two)
    taken = await reserve(one)
    assert taken.output >= OUTPUT_FLOOR
    one.settle(taken, 0, None)  # a try that failed: the next one finds its reserve, and again nobody else
    with pytest.raises(LimitReached):
        await reserve(two)
    assert (await reserve(one)).output >= OUTPUT_FLOOR
