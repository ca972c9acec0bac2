//! How a program in a container reaches the run's proxy. Which way works is asked of Windows by a container that
//! dials its own loopback; what the answer means is decided here, by nothing else and by no build number.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The variable that hands the answer to the processes that a node starts, so that a build is asked once a start.
pub const VARIABLE: &str = "OZ0_SANDBOX_PSEC_ROUTE";

/// Where relays listen on 127.0.0.1: one port a run, so 32 runs at a time on a machine.
pub const PORTS: RangeInclusive<u16> = 47330..=47361;

/// The AppContainer profile that relays run in, which is the peer that a container is told to expect.
pub const PROFILE: &str = "oz0.egress-relay";

/// The way to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The node's bridge listens on the loopback inside and forwards over an AF_UNIX socket.
    Bridge,
    /// A relay outside listens, as the container's one network peer.
    Relay,
}

impl Route {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Route::Bridge => "bridge",
            Route::Relay => "relay",
        }
    }

    /// What [`VARIABLE`] says; an empty value is the same as none.
    pub fn parse(value: &str) -> Result<Option<Route>, RouteError> {
        match value {
            "" => Ok(None),
            "bridge" => Ok(Some(Route::Bridge)),
            "relay" => Ok(Some(Route::Relay)),
            other => Err(RouteError { value: crate::text::escape(other) }),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

/// A value that is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}={value}: not a route; it is bridge or relay, or not set at all")]
pub struct RouteError {
    value: String,
}

/// What came of asking a container to dial its own loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialled {
    /// It reached itself.
    Connected,
    /// It reported that its dial failed with this Winsock code.
    Failed(i32),
    /// It reported that its dial was not answered in the time it was given.
    TimedOut,
    /// It reported that it could not even listen, for this reason.
    NotListening(String),
    /// It never reported, for this reason.
    NoReport(String),
}

/// Why the question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("whether a container reaches its own loopback is not known: {0}")]
pub struct NoAnswer(String);

/// The codes by which a dial is refused (Microsoft Learn, Windows Sockets Error Codes): by a filter, for want of a
/// way there, or by nobody listening.
const REFUSED: [i32; 4] = [WSAEACCES, WSAENETUNREACH, WSAECONNREFUSED, WSAEHOSTUNREACH];
const WSAEACCES: i32 = 10013;
const WSAENETUNREACH: i32 = 10051;
const WSAETIMEDOUT: i32 = 10060;
const WSAECONNREFUSED: i32 = 10061;
const WSAEHOSTUNREACH: i32 = 10065;
const WSASYSCALLFAILURE: i32 = 10107;

/// Which route a build takes, from what the container found. Only a container that reported is an answer.
pub fn decide(dialled: &Dialled) -> Result<Route, NoAnswer> {
    match dialled {
        Dialled::Connected => Ok(Route::Bridge),
        Dialled::TimedOut | Dialled::Failed(WSAETIMEDOUT) => Ok(Route::Relay),
        Dialled::Failed(code) if REFUSED.contains(code) => Ok(Route::Relay),
        Dialled::Failed(code) => Err(NoAnswer(format!("its dial failed with {}", winsock(*code)))),
        Dialled::NotListening(why) => Err(NoAnswer(format!("it could not listen: {why}"))),
        Dialled::NoReport(why) => Err(NoAnswer(format!("the container did not report: {why}"))),
    }
}

/// A Winsock code with what it means where that is easily misread.
pub fn winsock(code: i32) -> String {
    match code {
        WSASYSCALLFAILURE => {
            "10107 (WSASYSCALLFAILURE: a system call that has never failed did; in a container \
                              that is often missing network access)"
                .to_owned()
        }
        code => format!("Winsock error {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C068: one spelling each, empty is unset.
    #[test]
    fn c068_a_route_has_one_spelling() {
        assert_eq!(Route::parse(""), Ok(None));
        for route in [Route::Bridge, Route::Relay] {
            assert_eq!(Route::parse(route.word()), Ok(Some(route)));
            assert_eq!(serde_json::to_string(&route).unwrap(), format!("\"{route}\""));
        }
        for other in [" ", "Bridge", "RELAY", "none", "bridge ", " relay", "bridge,relay", "relay\n", "1"] {
            let error = Route::parse(other).unwrap_err().to_string();
            assert!(error.contains("bridge") && error.contains("relay") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn only_a_container_that_reported_is_an_answer() {
        assert_eq!(decide(&Dialled::Connected), Ok(Route::Bridge));
        for refused in [
            Dialled::TimedOut,
            Dialled::Failed(10060),
            Dialled::Failed(10061),
            Dialled::Failed(10013),
            Dialled::Failed(10051),
            Dialled::Failed(10065),
        ] {
            assert_eq!(decide(&refused), Ok(Route::Relay), "{refused:?}");
        }
        for unknown in [
            Dialled::NoReport("it ended with 0xC0000142".into()),
            Dialled::NotListening("Winsock error 10013".into()),
            Dialled::Failed(10107),
            Dialled::Failed(10047),
            Dialled::Failed(0),
        ] {
            assert!(decide(&unknown).is_err(), "{unknown:?}");
        }
        let error = decide(&Dialled::Failed(10107)).unwrap_err().to_string();
        assert!(error.contains("WSASYSCALLFAILURE") && error.contains("network access"), "{error}");
    }

    #[test]
    fn there_are_as_many_ports_as_runs_at_a_time() {
        assert_eq!(PORTS.count(), 32);
        assert!(
            PROFILE.len() <= 64
                && PROFILE.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte))
        );
    }
}
