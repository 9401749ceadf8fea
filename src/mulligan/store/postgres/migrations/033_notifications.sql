-- Code of earlier schemas goes on working with this: it tells no one about events.

CREATE TABLE mulligan_subscriptions (
    id               text COLLATE "C" PRIMARY KEY,
    -- NULL for one of the administrators.
    owner            text COLLATE "C",
    name             text COLLATE "C" NOT NULL,
    is_in_code       boolean NOT NULL,
    -- Which events, as JSON.
    choice           text NOT NULL,
    channel          text NOT NULL CHECK (channel IN ('email', 'webhook')),
    -- NULL: a function in the code finds it.
    recipient        text COLLATE "C",
    digest           bigint,
    -- The secrets that sign its webhooks, the newest first. They are needed to sign, so they are not hashed.
    secrets          text NOT NULL,
    created_at       bigint NOT NULL,
    created_by       text,
    disabled_at      bigint,
    disabled_because text,
    -- When a worker last reported that its code has it.
    seen_at          bigint
);
CREATE UNIQUE INDEX mulligan_subscriptions_name
ON mulligan_subscriptions ((coalesce('/' || owner, '')), name, is_in_code);

CREATE TABLE mulligan_deliveries (
    id           text COLLATE "C" PRIMARY KEY,
    subscription text COLLATE "C" NOT NULL,
    -- Of the subscription.
    owner        text COLLATE "C",
    -- Of the job or batch that the event is about.
    about_owner  text COLLATE "C" NOT NULL,
    channel      text NOT NULL,
    type         text NOT NULL,
    about        text COLLATE "C" NOT NULL,
    recipient    text COLLATE "C",
    state        text NOT NULL CHECK (state IN ('pending', 'delivered', 'failed', 'skipped', 'suppressed')),
    reason       text,
    -- The delivery that tells of this event, if it is suppressed; NULL until that is made.
    digest       text COLLATE "C",
    items        integer NOT NULL,
    sequence     integer,
    job          text COLLATE "C",
    attempts     integer NOT NULL DEFAULT 0,
    status       integer,
    response     text,
    seconds      double precision,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    delivered_at bigint,
    event        text,
    body         text
);
CREATE INDEX mulligan_deliveries_owner ON mulligan_deliveries (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX mulligan_deliveries_subscription ON mulligan_deliveries (subscription, about);
CREATE INDEX mulligan_deliveries_job ON mulligan_deliveries (job) WHERE job IS NOT NULL;
CREATE INDEX mulligan_deliveries_undigested ON mulligan_deliveries (subscription, recipient, id)
WHERE state = 'suppressed' AND digest IS NULL;
CREATE INDEX mulligan_deliveries_digest ON mulligan_deliveries (digest, id) WHERE digest IS NOT NULL;
CREATE INDEX mulligan_deliveries_mails ON mulligan_deliveries (recipient, created_at)
WHERE channel = 'email' AND state IN ('pending', 'delivered', 'failed');
CREATE INDEX mulligan_deliveries_updated ON mulligan_deliveries (updated_at);

-- Like events that go on: the first was told at once, the others are told in digests.
CREATE TABLE mulligan_incidents (
    id           text COLLATE "C" PRIMARY KEY,
    subscription text COLLATE "C" NOT NULL,
    recipient    text COLLATE "C" NOT NULL,
    type         text NOT NULL,
    kind         text NOT NULL,
    owner        text COLLATE "C" NOT NULL,
    code         text   NOT NULL,
    error_group  text COLLATE "C",
    title        text NOT NULL,
    opened_at    bigint NOT NULL,
    last_at      bigint NOT NULL,
    number       bigint NOT NULL
);
CREATE INDEX mulligan_incidents_last ON mulligan_incidents (last_at);

CREATE TABLE mulligan_digests (
    -- Subscription and recipient, with a slash between them.
    id           text COLLATE "C" PRIMARY KEY,
    subscription text COLLATE "C" NOT NULL,
    recipient    text COLLATE "C" NOT NULL,
    -- NULL: there is nothing to tell.
    due_at       bigint,
    step         integer NOT NULL,
    last_at      bigint
);
CREATE INDEX mulligan_digests_due ON mulligan_digests (due_at) WHERE due_at IS NOT NULL;

-- Incoming hooks.
CREATE TABLE mulligan_hooks (
    id          text COLLATE "C" PRIMARY KEY,
    owner       text COLLATE "C",
    name        text COLLATE "C" NOT NULL,
    error_group text COLLATE "C",
    batch       text COLLATE "C",
    secret      text NOT NULL,
    created_at  bigint NOT NULL,
    created_by  text,
    called_at   bigint
);
CREATE UNIQUE INDEX mulligan_hooks_name ON mulligan_hooks ((coalesce('/' || owner, '')), name);
