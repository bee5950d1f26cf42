"""Subscriptions: who is woken when streams get entries, by a webhook or as a worker that claims.

Owns     `subscriptions`, `subscription_links`, `subscription_graves`, and `webhook-keys.json` in the data folder.
Pulls    batches that are stored, leases and retries whose time has come.
Hands on calls of webhooks, events in wake streams, wakes that workers claim.
Keeps    an entry that is acknowledged to its writer wakes every subscription it is for, at least once, whatever dies
         when; a wake has one holder at a time, and who held an earlier one is told so.
Dies     at any step: `desk` says what a commit leaves behind, `news` how a start finds what nobody was told of.
"""

from streams_node.subscriptions.addresses import networks_of
from streams_node.subscriptions.deliveries import WakeStream, stream_of
from streams_node.subscriptions.desk import ACKS_MAX, Ack, Claim, Holding
from streams_node.subscriptions.keys import Jwk
from streams_node.subscriptions.patterns import parse, path_of
from streams_node.subscriptions.service import Subscriptions
from streams_node.subscriptions.subscription import Link, Subscription, Wanted
from streams_node.subscriptions.wakes import Kind

__all__ = [
    "ACKS_MAX",
    "Ack",
    "Claim",
    "Holding",
    "Jwk",
    "Kind",
    "Link",
    "Subscription",
    "Subscriptions",
    "WakeStream",
    "Wanted",
    "networks_of",
    "parse",
    "path_of",
    "stream_of",
]
