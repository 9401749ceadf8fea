-- Code of earlier schemas goes on working with this: it knows no pages.

-- People who are signed in to the dashboard.
CREATE TABLE mulligan_web_sessions (
    -- SHA-256 of the token in the cookie, which is not stored.
    session  text COLLATE "C" PRIMARY KEY,
    -- The id of the key that signed in. What the key may not do any more, the session may not either.
    key      text COLLATE "C" NOT NULL,
    begun_at bigint NOT NULL,
    -- To the minute.
    used_at  bigint NOT NULL
);
CREATE INDEX mulligan_web_sessions_key ON mulligan_web_sessions (key);

-- One-time links that sign in with a key.
CREATE TABLE mulligan_sign_in_links (
    digest text COLLATE "C" PRIMARY KEY,
    key    text COLLATE "C" NOT NULL,
    until  bigint NOT NULL
);
