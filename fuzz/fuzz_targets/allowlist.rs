//! Allowlist entries and hosts: no text panics, what parses prints as itself, and a rule never leads to a closed
//! address that it does not name.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use oz0_egress::address::{Kind, judge};
use oz0_egress::{Allowlist, Authority, Host};

const CLOSED: [&str; 6] = ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "fd00::5", "::ffff:127.0.0.1"];

fuzz_target!(|text: &str| {
    let (entry, host) = text.split_once('\n').unwrap_or((text, text));
    if let Ok(authority) = host.parse::<Authority>() {
        assert_eq!(authority.to_string().parse::<Authority>(), Ok(authority));
    }
    let Ok(list) = Allowlist::parse([entry]) else { return };
    let printed = list.rules()[0].to_string();
    assert_eq!(Allowlist::parse([&printed]).as_ref(), Ok(&list), "{printed}");
    let Ok(host) = host.parse::<Host>() else { return };
    for port in [80, 443, 8080] {
        let named = list.rule_for(&host, port).is_ok();
        assert_eq!(list.explain(&host, port).rule.is_some(), named);
        for address in CLOSED {
            let address: IpAddr = address.parse().expect("an address");
            assert_ne!(judge(address), Kind::Public);
            if list.permits(&host, port, address).is_some() {
                assert!(named);
                assert!(printed.contains(&address.to_string()), "{printed} leads to {address}");
                assert_ne!(judge(address), Kind::Metadata);
            }
        }
    }
});
