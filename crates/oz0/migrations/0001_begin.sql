-- The first schema. {bytes} is what the database calls bytes. Times are milliseconds since 1970 in UTC, by the clock
-- of whichever oz0 wrote them; ids are text as people see it.

CREATE TABLE tenants (
    tenant TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created BIGINT NOT NULL
);

-- Tokens are kept as digests.
CREATE TABLE tenant_tokens (
    digest TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tenants (tenant),
    name TEXT NOT NULL,
    created BIGINT NOT NULL
);

CREATE TABLE node_tokens (
    digest TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tenants (tenant),
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    reserved BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    used_by TEXT
);

CREATE TABLE nodes (
    node TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tenants (tenant),
    name TEXT NOT NULL,
    public_key TEXT NOT NULL,
    state TEXT NOT NULL,
    labels TEXT NOT NULL,
    -- Takes only jobs that ask for one of its labels.
    reserved BIGINT NOT NULL,
    -- Stays in the list however long it is not seen.
    keep BIGINT NOT NULL,
    enrolled BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    address TEXT NOT NULL,
    -- The start that reported last, and when its first report was made, by the node's clock in seconds.
    start_id TEXT,
    start_created BIGINT,
    -- The address of the other machine, once two had the key.
    other_address TEXT,
    reported BIGINT,
    facts TEXT,
    tested BIGINT,
    test_took BIGINT,
    most_jobs BIGINT NOT NULL,
    -- When it first was routed as tier 1.
    earned BIGINT,
    -- Launches that failed in a row, the last one's obstacle, and until when it is set aside.
    failures BIGINT NOT NULL,
    obstacle TEXT,
    aside_until BIGINT
);
CREATE INDEX nodes_of_tenant ON nodes (tenant, name);

CREATE TABLE starts (
    node TEXT NOT NULL REFERENCES nodes (node),
    start_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (node, start_id)
);

CREATE TABLE tier_history (
    node TEXT NOT NULL REFERENCES nodes (node),
    at BIGINT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (node, at)
);

CREATE TABLE nonces (
    node TEXT NOT NULL,
    nonce TEXT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (node, nonce)
);
CREATE INDEX nonces_by_age ON nonces (until);

CREATE TABLE triggers (
    trigger_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tenants (tenant),
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    secret TEXT NOT NULL,
    template TEXT NOT NULL,
    need TEXT NOT NULL,
    created BIGINT NOT NULL,
    UNIQUE (tenant, name)
);

-- What jobs ask of a node: few, however many jobs there are.
CREATE TABLE needs (
    need TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tenants (tenant),
    asks TEXT NOT NULL
);
CREATE INDEX needs_of_tenant ON needs (tenant);

CREATE TABLE jobs (
    job TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tenants (tenant),
    -- What it came by: a trigger, or the tenant's own sessions; and the sender's name for the delivery, digested.
    origin TEXT NOT NULL,
    delivery TEXT NOT NULL,
    need TEXT NOT NULL REFERENCES needs (need),
    work TEXT NOT NULL,
    -- queued, leased, or a terminal state.
    state TEXT NOT NULL,
    accepted BIGINT NOT NULL,
    wait_until BIGINT NOT NULL,
    node TEXT,
    fence BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    phase TEXT,
    lease_until BIGINT,
    cancel BIGINT,
    ended BIGINT,
    reason TEXT,
    outcome TEXT,
    UNIQUE (origin, delivery)
);
CREATE INDEX jobs_queued ON jobs (need, job) WHERE state = 'queued';
CREATE INDEX jobs_waiting ON jobs (wait_until) WHERE state = 'queued';
CREATE INDEX jobs_leased ON jobs (node, job) WHERE state = 'leased';
CREATE INDEX jobs_by_lease ON jobs (lease_until) WHERE state = 'leased';
CREATE INDEX jobs_of_tenant ON jobs (tenant, job);

CREATE TABLE late_endings (
    job TEXT NOT NULL REFERENCES jobs (job),
    fence BIGINT NOT NULL,
    node TEXT NOT NULL,
    at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (job, fence)
);

CREATE TABLE logs (
    job TEXT NOT NULL REFERENCES jobs (job),
    fence BIGINT NOT NULL,
    begins BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    bytes {bytes} NOT NULL,
    PRIMARY KEY (job, fence, begins)
);
