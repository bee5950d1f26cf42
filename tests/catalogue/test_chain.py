"""Generations and ownership in a bucket that is slow, stale, lying or shared."""

import json
from collections.abc import Callable

import pytest
from typing_extensions import override

from streams_node.errors import CatalogueError, Fenced, StoreCorrupt, StoreUnavailable
from streams_node.manifest import AlreadyPublished, Chain, check, claim, compose, look, take_over
from streams_node.manifest.records import Drop
from streams_node.objects import (
    Fault,
    FaultPlan,
    FaultyStore,
    Key,
    KeyPrefix,
    MemoryStore,
    ObjectStore,
    Page,
    RetryingStore,
    WriteId,
)
from streams_node.objects.keys import LATEST, OWNER, Generation, generation_key
from streams_node.objects.protocol import LIST_KEYS_MAX
from tests.catalogue.world import NODE, NOW_US, QUICK, RIVAL, World, header, retrying


def commit(chain: Chain, generation: int, previous: str = "", node: str = NODE, fence: int = 1) -> str:
    made = header(generation, previous, node=node, fence=fence)
    return chain.commit(made, compose(made, []))


def chain_of(store: ObjectStore, generations: int) -> Chain:
    chain = Chain(retrying(store))
    for number in range(1, generations + 1):
        commit(chain, number)
    return chain


class Stale(MemoryStore):
    """Lists what was there some time ago."""

    listed: Callable[[Key], bool] = staticmethod(lambda _: True)

    @override
    def list(self, prefix: KeyPrefix, after: Key | None = None, limit: int = LIST_KEYS_MAX) -> Page:
        page = super().list(prefix, after, limit)
        return page._replace(objects=tuple(each for each in page.objects if self.listed(each.key)))


# --- the newest one -------------------------------------------------------------------------------------------------


def test_an_empty_bucket_has_no_generation() -> None:
    assert Chain(retrying()).newest() == 0
    assert Chain(retrying()).newest(7) == 0


@pytest.mark.parametrize("hint", [0, 1, 5, 6, 100])
@pytest.mark.parametrize("pointed", [0, 2, 6, 90])
def test_the_newest_is_found_from_any_hint(hint: int, pointed: int) -> None:
    chain = chain_of(MemoryStore(), 6)
    if pointed:
        chain.point(pointed)
    assert chain.newest(hint) == 6


@pytest.mark.parametrize("hidden", [range(6, 7), range(3, 7), range(1, 7), range(4, 5)])
def test_a_stale_listing_hides_no_generation(hidden: range) -> None:
    store = Stale()
    chain = chain_of(store, 6)
    store.listed = lambda key: key not in {generation_key(Generation(number)) for number in hidden}
    assert chain.newest() == 6
    assert chain.newest(2) == 6


def test_old_generations_may_be_gone_and_a_listing_may_still_show_one() -> None:
    store = MemoryStore()
    chain = chain_of(store, 9)
    for number in range(1, 7):
        store.delete(generation_key(Generation(number)))
    assert chain.newest() == 9
    assert chain.newest(3) == 9
    ghost = MemoryStore()
    ghosts = chain_of(ghost, 3)
    page = ghost.list(KeyPrefix(""))
    ghost.delete(generation_key(Generation(3)))
    ghost.list = lambda *_: page  # type: ignore[method-assign] # a listing from before
    assert ghosts.newest() == 2


def test_a_damaged_hint_is_no_hint() -> None:
    store = MemoryStore()
    chain = chain_of(store, 3)
    store.put(LATEST, b"{nonsense", write_id=WriteId("x"))
    assert chain.pointed() == 0
    assert chain.newest() == 3
    assert chain.point(3)
    assert chain.pointed() == 3


def test_the_hint_only_moves_forward_and_its_failure_is_none_of_ours() -> None:
    plan = FaultPlan(1)
    chain = Chain(retrying(FaultyStore(MemoryStore(), plan)))
    assert chain.point(5)
    assert chain.point(3)
    assert chain.pointed() == 5
    plan.away = True
    assert not chain.point(6)


# --- committing -----------------------------------------------------------------------------------------------------


def test_committing_the_same_bytes_again_finds_that_it_is_done() -> None:
    chain = Chain(retrying())
    assert commit(chain, 1) == commit(chain, 1)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LATE, Fault.DROPPED, Fault.BUSY])
def test_a_lost_answer_is_settled(fault: Fault) -> None:
    for seed in range(20):
        inner = MemoryStore()
        plan = FaultPlan(seed, {fault: 0.4})
        chain = Chain(retrying(FaultyStore(inner, plan)))
        previous = ""
        for number in range(1, 6):
            while True:
                try:
                    previous = commit(chain, number, previous)
                    break
                except StoreUnavailable:
                    continue
        plan.chances.clear()
        assert chain.newest() == 5
        assert [chain.header(number).generation for number in range(1, 6)] == [1, 2, 3, 4, 5]


def test_a_rival_that_was_first_is_named() -> None:
    chain = Chain(retrying())
    commit(chain, 1, node=RIVAL, fence=4)
    with pytest.raises(Fenced, match=f"node `{RIVAL}` .fence 4. published generation 1") as caught:
        commit(chain, 1)
    assert (caught.value.facts["node"], caught.value.facts["fence"]) == (RIVAL, 4)


def test_of_two_that_race_for_a_generation_one_wins_and_one_knows() -> None:
    store = MemoryStore()
    one, two = Chain(retrying(store)), Chain(retrying(store))
    commit(one, 1)
    assert commit(two, 2, node=RIVAL, fence=2)
    with pytest.raises(Fenced):
        commit(one, 2)
    assert one.header(2).node == RIVAL


def test_our_own_with_other_bytes_has_to_be_reconciled() -> None:
    chain = Chain(retrying())
    commit(chain, 1)
    other = header(1)
    with pytest.raises(AlreadyPublished):
        chain.commit(other, compose(other, [Drop(made="1" * 32)]))


def test_a_missing_and_a_damaged_generation_are_told_apart() -> None:
    store = MemoryStore()
    chain = chain_of(store, 2)
    with pytest.raises(CatalogueError, match=r"generation 3 of the catalogue is missing .*put it back from a copy"):
        chain.fetch(3)
    with pytest.raises(CatalogueError, match="generation 2 of the catalogue is damaged"):
        chain.fetch(2, "0" * 64)


# --- ownership ------------------------------------------------------------------------------------------------------


def test_an_empty_bucket_is_claimed_once_and_found_again(world: World) -> None:
    assert world.fence == 1
    assert claim(world.store, NODE, "here", NOW_US + 5) == 1
    check(world.store, NODE, 1)
    seen = look(world.store)
    assert seen is not None
    assert (seen.owner.node, seen.owner.host, seen.owner.since_us) == (NODE, "here", NOW_US)


def test_somebody_elses_catalogue_is_left_alone_and_the_ways_out_are_named(world: World) -> None:
    world.publish()
    with pytest.raises(CatalogueError) as caught:
        claim(world.store, RIVAL, "there", NOW_US)
    for part in (f"node `{NODE}` on host `here`", "--bootstrap-from-store", "empty data folder", "s3_prefix"):
        assert part in caught.value.message
    world.store.delete(OWNER)
    with pytest.raises(CatalogueError, match="owner record is gone"):
        claim(world.store, RIVAL, "there", NOW_US)


def test_who_was_taken_over_knows_by_whom(world: World) -> None:
    world.publish()
    assert take_over(world.store, RIVAL, "there", NOW_US) == 2
    with pytest.raises(Fenced, match=f"node `{RIVAL}` on host `there` took .* over at 2023-11-14"):
        world.publish()
    assert take_over(world.store, NODE, "here", NOW_US) == 3
    with pytest.raises(Fenced):
        check(world.store, RIVAL, 2)


def test_the_fence_goes_on_without_an_owner_record(world: World) -> None:
    world.fence = 1
    world.publish()
    world.store.delete(OWNER)
    with pytest.raises(CatalogueError, match="no owner record any more"):
        world.publish()
    assert take_over(world.store, RIVAL, "there", NOW_US) == 2


def test_of_two_that_take_over_at_once_one_is_told(world: World) -> None:
    store = world.store

    real = store.put

    def put(*args: object, **kwargs: object) -> object:
        store.put = real  # type: ignore[method-assign]
        take_over(store, "c" * 32, "elsewhere", NOW_US)
        return real(*args, **kwargs)  # type: ignore[arg-type]

    store.put = put  # type: ignore[method-assign, assignment]
    with pytest.raises(Fenced, match=r"at the same moment: `c+` on host `elsewhere`"):
        take_over(store, RIVAL, "there", NOW_US)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"format":1,"node":"x","fence":1,"since_us":1,"host":""}', "cannot be read"),
        (b'{"format":2}', r"newer version \(format 2"),
    ],
)
def test_an_owner_record_that_cannot_be_read_stops_everybody(content: bytes, problem: str) -> None:
    store = retrying()
    store.put(OWNER, content, write_id=WriteId("x"))
    for act in (
        lambda: claim(store, NODE, "h", 1),
        lambda: check(store, NODE, 1),
        lambda: take_over(store, NODE, "h", 1),
    ):
        with pytest.raises(CatalogueError, match=problem):
            act()


def test_a_claim_whose_answer_was_lost_is_found() -> None:
    for seed in range(20):
        store = RetryingStore(
            FaultyStore(MemoryStore(), FaultPlan(seed, {Fault.LOST: 0.5, Fault.DROPPED: 0.1})),
            retrying().counts,
            QUICK,
        )
        for _ in range(50):
            try:
                assert claim(store, NODE, "here", NOW_US) == 1
                break
            except (StoreUnavailable, StoreCorrupt):
                continue
        else:
            pytest.fail("never claimed")


def test_the_owner_record_is_plain_json(world: World) -> None:
    record = json.loads(world.store.get(OWNER).data)
    assert record == {"format": 1, "node": NODE, "fence": 1, "since_us": NOW_US, "host": "here"}
