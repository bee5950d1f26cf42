-- Subscriptions of the reserved `__ds` space: who is to be told of which streams, how far each has acknowledged, and the
-- wake that is under way.

CREATE TABLE subscriptions (
    number      INTEGER PRIMARY KEY,           -- of this life of the id; drawn at random, never used twice
    id          TEXT NOT NULL UNIQUE,
    kind        TEXT NOT NULL,                 -- `webhook` or `pull-wake`
    pattern     TEXT,                          -- the glob, as segments joined by slashes
    url         TEXT,                          -- of a webhook
    wake_bucket TEXT,                          -- where wakes are announced
    wake_name   TEXT,
    lease_ms    INTEGER NOT NULL,
    description TEXT,
    digest      TEXT NOT NULL,                 -- of everything that a repeated PUT has to repeat
    base        TEXT NOT NULL,                 -- the address of this node as its creator wrote it
    created_us  INTEGER NOT NULL,
    since_row   INTEGER NOT NULL,              -- the newest log row that it does not hear of
    linked      INTEGER NOT NULL DEFAULT 0,    -- every matching incarnation up to this one had its link once
    generation  INTEGER NOT NULL DEFAULT 0,    -- counts wakes; fences all earlier ones
    phase       TEXT NOT NULL DEFAULT 'idle',  -- or `calling`, `announced`, `claimed`
    wake        TEXT,                          -- the id of the wake that is under way
    holder      TEXT,                          -- the worker that claimed it
    lease_us    INTEGER NOT NULL DEFAULT 0,    -- when the lease ends
    delivered   INTEGER NOT NULL DEFAULT 0,    -- whether the receiver has taken the wake
    attempts    INTEGER NOT NULL DEFAULT 0,    -- failed ones of this wake
    attempt_us  INTEGER NOT NULL DEFAULT 0,    -- when the next one is due, 0 for at once
    seen        TEXT NOT NULL DEFAULT '[]'     -- JSON: the ends of the streams that the wake is about
) STRICT;

-- One row a stream of a subscription: what was acknowledged of which life of it.
CREATE TABLE subscription_links (
    subscription INTEGER NOT NULL,
    bucket       TEXT NOT NULL,
    name         TEXT NOT NULL,
    stream       INTEGER NOT NULL,             -- the incarnation, 0 when there was none yet
    acked_seq    INTEGER NOT NULL,
    acked        TEXT NOT NULL,                -- the offset, as clients see it
    explicit     INTEGER NOT NULL,             -- named by a request, and not only matched by the glob
    PRIMARY KEY (subscription, bucket, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX subscription_links_explicit ON subscription_links (subscription, bucket, name) WHERE explicit = 1;

-- Deleted subscriptions whose links are still there.
CREATE TABLE subscription_graves (
    number INTEGER PRIMARY KEY
) STRICT;
