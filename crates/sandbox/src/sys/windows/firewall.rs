//! What Windows Firewall does with connections from outside, in each of its three profiles, as it says itself. Read
//! only; no administrator is needed. It refuses to know what a rule says.

use std::thread;

use windows::Win32::Foundation::VARIANT_BOOL;
use windows::Win32::NetworkManagement::WindowsFirewall::{
    INetFwPolicy2, NET_FW_ACTION_BLOCK, NET_FW_PROFILE_TYPE2, NET_FW_PROFILE2_DOMAIN,
    NET_FW_PROFILE2_PRIVATE, NET_FW_PROFILE2_PUBLIC, NetFwPolicy2,
};
use windows::Win32::System::Com::{
    CLSCTX_INPROC_SERVER, COINIT_MULTITHREADED, CoCreateInstance, CoInitializeEx, CoUninitialize,
};

use super::error::CallError;

/// What the firewall answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firewall {
    /// All three profiles: domain, private, public.
    Known([Profile; 3]),
    /// It did not answer: its service is stopped, say. Nobody may take that for a block.
    CannotTell(CallError),
}

/// One profile's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Whether the firewall is on.
    pub enabled: bool,
    /// Whether connections that no rule speaks of are blocked.
    pub blocks_by_default: bool,
    /// Whether every connection is blocked, whatever rules say.
    pub blocks_all: bool,
}

impl Profile {
    /// Whether connections from outside are stopped unless a rule lets them in.
    pub fn holds(&self) -> bool {
        self.enabled && (self.blocks_by_default || self.blocks_all)
    }
}

/// Asks.
pub fn read() -> Firewall {
    // A thread of its own: COM is then set up and taken down without touching the caller's.
    match thread::spawn(ask).join() {
        Ok(Ok(profiles)) => Firewall::Known(profiles),
        Ok(Err(error)) => Firewall::CannotTell(error),
        // E_UNEXPECTED (winerror.h)
        Err(_) => Firewall::CannotTell(CallError::hresult("INetFwPolicy2", 0x8000_FFFF_u32 as i32)),
    }
}

fn ask() -> Result<[Profile; 3], CallError> {
    let _com = Com::initialise()?;
    // SAFETY: class and interface belong together; what comes is released when it is dropped, before COM is.
    let policy: INetFwPolicy2 = unsafe { CoCreateInstance(&NetFwPolicy2, None, CLSCTX_INPROC_SERVER) }
        .map_err(CallError::of("CoCreateInstance"))?;
    Ok([
        profile(&policy, "domain", NET_FW_PROFILE2_DOMAIN)?,
        profile(&policy, "private", NET_FW_PROFILE2_PRIVATE)?,
        profile(&policy, "public", NET_FW_PROFILE2_PUBLIC)?,
    ])
}

fn profile(
    policy: &INetFwPolicy2,
    name: &'static str,
    kind: NET_FW_PROFILE_TYPE2,
) -> Result<Profile, CallError> {
    // SAFETY: the interface is alive; one profile is asked for, as the call wants.
    let enabled =
        unsafe { policy.get_FirewallEnabled(kind) }.map_err(CallError::of("get_FirewallEnabled"))?;
    // SAFETY: likewise.
    let action = unsafe { policy.get_DefaultInboundAction(kind) }
        .map_err(CallError::of("get_DefaultInboundAction"))?;
    // SAFETY: likewise.
    let all = unsafe { policy.get_BlockAllInboundTraffic(kind) }
        .map_err(CallError::of("get_BlockAllInboundTraffic"))?;
    Ok(Profile {
        name,
        enabled: is_true(enabled),
        blocks_by_default: action == NET_FW_ACTION_BLOCK,
        blocks_all: is_true(all),
    })
}

fn is_true(value: VARIANT_BOOL) -> bool {
    value.as_bool()
}

/// COM on this thread.
struct Com;

impl Com {
    fn initialise() -> Result<Com, CallError> {
        // SAFETY: nothing is passed in; a thread of our own has no other kind of COM already.
        let answer = unsafe { CoInitializeEx(None, COINIT_MULTITHREADED) };
        answer.ok().map_err(CallError::of("CoInitializeEx"))?;
        Ok(Com)
    }
}

impl Drop for Com {
    fn drop(&mut self) {
        // SAFETY: initialised once on this thread, and every interface is released.
        unsafe { CoUninitialize() };
    }
}

#[cfg(test)]
mod tests {
    use super::super::lab;
    use super::*;

    #[test]
    fn a_profile_holds_when_it_is_on_and_blocks() {
        for (enabled, blocks_by_default, blocks_all, holds) in [
            (true, true, false, true),
            (true, false, true, true),
            (true, false, false, false),
            (false, true, true, false),
        ] {
            let profile = Profile { name: "public", enabled, blocks_by_default, blocks_all };
            assert_eq!(profile.holds(), holds, "{profile:?}");
        }
    }

    #[test]
    fn the_firewall_answers_or_cannot_tell() {
        match read() {
            Firewall::Known(profiles) => {
                assert!(!lab::is_wine(), "Wine has no firewall");
                assert_eq!(profiles.map(|profile| profile.name), ["domain", "private", "public"]);
            }
            Firewall::CannotTell(error) => {
                assert!(lab::is_wine(), "{error}");
                // Wine has the object and no answers: E_NOTIMPL.
                assert_eq!((error.call, error.as_hresult() as u32), ("get_FirewallEnabled", 0x8000_4001));
            }
        }
    }
}
