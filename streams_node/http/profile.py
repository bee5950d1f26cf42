"""GET and POST of `…/_profile`: what kind of entries a stream takes, and how they are stored."""

import msgspec
from msgspec import UNSET, UnsetType

from streams_node import profiles
from streams_node.errors import BadProfile
from streams_node.http.context import Context
from streams_node.http.reply import Reply, SubRequest
from streams_node.ingest.declare import Decide, declare, standing_of
from streams_node.meaning import Facts, Standing
from streams_node.profiles import Profile
from streams_node.schema.jsontext import dumps
from streams_node.schema.registry import Registry, evolved, parse_update

PROFILE_BODY_BYTES_MAX = 512 << 10  # the largest configuration, with every character escaped
_LARGE_BYTES = 16 << 10  # reading that much takes about a millisecond


class CorrelationView(msgspec.Struct, rename="camel", omit_defaults=True):
    request_id_fields: list[str] | UnsetType = UNSET
    trace_context_fields: list[str] | UnsetType = UNSET
    parse_traceparent: bool | UnsetType = UNSET


class ProfileDocument(msgspec.Struct, rename="camel", omit_defaults=True):
    """`redactKeys`, `correlation` and `observability` belong to `evlog`."""

    kind: str
    redact_keys: list[str] | UnsetType = UNSET
    correlation: CorrelationView | UnsetType = UNSET
    observability: dict[str, dict[str, str]] | UnsetType = UNSET


class ProfileView(msgspec.Struct, rename="camel"):
    """As `Profile.document` makes it; handlers send that text."""

    api_version: str
    profile: ProfileDocument


async def read_profile(context: Context, request: SubRequest) -> Reply[ProfileView]:
    """The profile as it is stored; `generic` where none was ever declared."""
    state = await context.ledger.readable(request.name)
    meaning = state.tail_meaning
    if meaning is not None and meaning.problem is not None:
        raise meaning.problem
    return _shown(standing_of(state, meaning))


async def update_profile(context: Context, request: SubRequest) -> Reply[ProfileView]:
    """Change the profile, with everything that it installs, or nothing. The answer comes once it is stored."""
    await context.ledger.living(request.name)
    if len(request.body) < _LARGE_BYTES:
        wanted = profiles.parse(request.body)
    else:
        wanted = await context.ledger.workshop.make(lambda: profiles.parse(request.body))
    declared = await declare(context.ledger, request.name, installing(wanted))
    if declared.batch is not None:
        await declared.batch.settling
    return _shown(declared.standing)


def installing(wanted: Profile) -> Decide:
    """What a stream becomes by this profile. The kind that it has keeps its registry, whatever was made of that."""

    def decide(before: Standing, facts: Facts) -> Standing:
        if wanted.kind == before.profile:
            return before._replace(config=wanted.config)
        if wanted.kind in profiles.JSON_ONLY and not facts.is_json:
            raise BadProfile(f"{wanted.kind} profile requires application/json stream content-type")
        if wanted.kind in profiles.EMPTY_ONLY and not facts.empty:
            raise BadProfile(f"{wanted.kind} profile must be installed before appending data")
        update = profiles.installed(wanted.kind)
        registry = before.registry
        if update is not None:
            registry = evolved(Registry(registry.name), parse_update(dumps(update)), facts.end)
        return Standing(registry, wanted.kind, wanted.config)

    return decide


def profile_text(standing: Standing) -> bytes:
    """What `_profile` answers."""
    return dumps(Profile(standing.profile, dict(standing.config)).document)


def _shown(standing: Standing) -> Reply[ProfileView]:
    return Reply(200, None, profile_text(standing))
