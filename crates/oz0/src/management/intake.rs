//! What comes in from machines that are, or want to be, nodes. Of a report only facts are kept, re-checked whatever
//! the node claims (P4); what it is called is the operator's to say.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use oz0_fleet::protocol::{
    Accepted, Code, Enrol, Enrolled, Milliseconds, NodeState, Report, Version, Versions,
};
use oz0_fleet::{Reported, platform};

use crate::chance::digest_of;
use crate::edge::signed::Sent;
use crate::edge::{Answer, Edge};
use crate::store::nodes;

/// A node reports again, with a younger self-test, after this long: well before its tier grows stale.
const REPORT_AGAIN: Milliseconds = Milliseconds::seconds(6 * 3600);
/// No node runs more jobs at once.
const MOST_JOBS: u16 = 1024;

fn agree(speaks: Versions) -> Result<Version, Answer> {
    speaks.agree(Versions::OURS).ok_or_else(|| {
        let Versions { oldest, newest } = Versions::OURS;
        Answer::new(
            Code::Protocol,
            format!("the edge speaks version {oldest} to {newest}, the node none of them"),
        )
        .speaking()
    })
}

/// Let a key be a node's.
pub(crate) async fn enrol(State(edge): State<Arc<Edge>>, sent: Sent) -> Result<Json<Enrolled>, Answer> {
    let enrol: Enrol = sent.json()?;
    let speak = agree(enrol.speaks)?;
    // Whoever enrols a key has it: the request is signed with it, and the id is its digest.
    let caller = sent.with_key(&enrol.key.0)?;
    let act = nodes::Enrol {
        node: caller.node,
        key: enrol.key.0,
        token: digest_of(&[enrol.token.reveal()]),
        address: sent.address().to_owned(),
        now: caller.now,
    };
    let fix = "ask the operator for a new one: `oz0 node token`";
    match edge.store.act(act).await? {
        nodes::Enrolled::Of(tenant) => {
            tracing::info!(node = %caller.node, %tenant, "a node enrolled");
            Ok(Json(Enrolled { node: caller.node, tenant, speak }))
        }
        nodes::Enrolled::NoToken => {
            Err(Answer::new(Code::Token, "there is no such token, or it was used").fix(fix))
        }
        nodes::Enrolled::Expired => Err(Answer::new(Code::Token, "the token is over").fix(fix)),
        nodes::Enrolled::Refused(NodeState::Held) => Err(crate::store::nonces::NotAdmitted::Held.into()),
        nodes::Enrolled::Refused(NodeState::Revoked) => {
            Err(crate::store::nonces::NotAdmitted::Revoked.into())
        }
        nodes::Enrolled::Refused(_) => Err(Answer::new(Code::Token, "this key is a node of another tenant")
            .fix("start with a new data directory")),
    }
}

/// What a node's machine is.
pub(crate) async fn report(State(edge): State<Arc<Edge>>, sent: Sent) -> Result<Json<Accepted>, Answer> {
    let caller = sent.caller(&edge).await?;
    if sent.bytes().len() > 2 * Reported::LONGEST {
        return Err(Answer::new(Code::TooLarge, "no report is as long as this"));
    }
    let report: Report<Reported> = sent.json()?;
    let speak = agree(report.speaks)?;
    let facts = report.facts.facts();
    let tested = report.self_test.map(|test| (caller.now.before(test.age_ms), test.took_ms.count()));
    let node = caller.node;
    let act = nodes::Report { caller, facts, tested, most_jobs: report.most_jobs.min(MOST_JOBS) };
    let state = edge.store.act(act).await??;
    let routed = platform::routed_tier(&facts);
    tracing::info!(%node, tier = platform::shown(&facts), "a node reported");
    Ok(Json(Accepted { speak, routed, state, report_again_ms: REPORT_AGAIN }))
}
