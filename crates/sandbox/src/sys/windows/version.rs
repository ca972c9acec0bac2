//! Which Windows this is: build, revision and edition, as it is and not as it tells programs without a manifest. It
//! refuses to decide anything by it, even whether this is a Server.

use windows::Wdk::System::SystemServices::RtlGetVersion;
use windows::Win32::Foundation::ERROR_SUCCESS;
use windows::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_ROUTINE_FLAGS, RRF_RT_REG_DWORD, RRF_RT_REG_SZ, RegGetValueW,
};
use windows::Win32::System::SystemInformation::OSVERSIONINFOEXW;
use windows::core::{PCWSTR, w};

use super::error::CallError;
use super::wide;

/// The system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// 10 for Windows 10, 11 and their Servers.
    pub major: u32,
    /// 0 for them.
    pub minor: u32,
    /// Such as 26200.
    pub build: u32,
    /// What the last update made of it, such as 9457; the registry's UBR.
    pub revision: Option<u32>,
    /// The kind of Windows: 1 for a client, 2 and 3 for Servers (winnt.h, VER_NT_*).
    pub product_type: u8,
    /// The same as the registry has it: `WinNT` for a client.
    pub product: Option<String>,
    /// Such as "25H2".
    pub display: Option<String>,
}

const CURRENT: PCWSTR = w!(r"SOFTWARE\Microsoft\Windows NT\CurrentVersion");
const PRODUCT: PCWSTR = w!(r"SYSTEM\CurrentControlSet\Control\ProductOptions");

/// Asks.
pub fn read() -> Result<Version, CallError> {
    let mut information =
        OSVERSIONINFOEXW { dwOSVersionInfoSize: size_of::<OSVERSIONINFOEXW>() as u32, ..Default::default() };
    // SAFETY: the structure lives on this stack and says its own size, by which the call knows the longer form.
    let status = unsafe { RtlGetVersion((&raw mut information).cast()) };
    if status.is_err() {
        return Err(CallError::hresult("RtlGetVersion", status.0));
    }
    Ok(Version {
        major: information.dwMajorVersion,
        minor: information.dwMinorVersion,
        build: information.dwBuildNumber,
        revision: number(CURRENT, w!("UBR")),
        product_type: information.wProductType,
        product: text(PRODUCT, w!("ProductType")),
        display: text(CURRENT, w!("DisplayVersion")),
    })
}

fn number(key: PCWSTR, name: PCWSTR) -> Option<u32> {
    let mut number = [0_u8; 4];
    (value(key, name, RRF_RT_REG_DWORD, &mut number)? == number.len()).then_some(u32::from_le_bytes(number))
}

fn text(key: PCWSTR, name: PCWSTR) -> Option<String> {
    let mut bytes = [0_u8; 128];
    let length = value(key, name, RRF_RT_REG_SZ, &mut bytes)?;
    let units: Vec<u16> =
        bytes[..length].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    wide::text(&units).into_string().ok().filter(|text| !text.is_empty())
}

/// The length of a value, when it is there, of the kind, and fits.
fn value(key: PCWSTR, name: PCWSTR, kind: REG_ROUTINE_FLAGS, into: &mut [u8]) -> Option<usize> {
    let mut length = into.len() as u32;
    // SAFETY: key and name are literals with their NUL, the buffer is borrowed for the call with its length.
    let status = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key,
            name,
            kind,
            None,
            Some(into.as_mut_ptr().cast()),
            Some(&raw mut length),
        )
    };
    (status == ERROR_SUCCESS).then_some(length as usize).filter(|length| *length <= into.len())
}

#[cfg(test)]
mod tests {
    use super::super::lab;
    use super::*;

    #[test]
    fn this_machine_is_read() {
        let version = read().expect("a version");
        assert_eq!((version.major, version.minor), (10, 0), "{version:?}");
        assert!(version.build >= 10_240, "{version:?}");
        assert!((1..=3).contains(&version.product_type), "{version:?}");
        assert_eq!(size_of::<OSVERSIONINFOEXW>(), 284, "the longer form");
        if lab::is_wine() {
            // The prefix's registry says so.
            assert!(version.revision.is_some(), "{version:?}");
        }
    }

    #[test]
    fn a_value_of_another_kind_is_none() {
        assert_eq!(number(CURRENT, w!("ProductName")), None);
        assert_eq!(number(CURRENT, w!("NoSuchValue")), None);
        assert!(text(CURRENT, w!("ProductName")).is_some());
    }
}
