//! The program's imports, led here. Only the main program's: this library's own calls go to Wine, and so do those of
//! other libraries. What the program looks up by name is led here too (`library`).

use std::ffi::CStr;

use windows_sys::Win32::System::Diagnostics::Debug::{IMAGE_DIRECTORY_ENTRY_IMPORT, IMAGE_NT_HEADERS64};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Memory::{PAGE_READWRITE, VirtualProtect};
use windows_sys::Win32::System::SystemServices::{IMAGE_DOS_HEADER, IMAGE_IMPORT_DESCRIPTOR};

use super::{appcontainer, environment, job, launch, library, token, unix_socket};

/// Where functions live; one name may have an address in several.
const LIBRARIES: [&CStr; 4] = [c"kernelbase.dll", c"kernel32.dll", c"advapi32.dll", c"ws2_32.dll"];

/// What is led here, and to which function.
pub fn replaced() -> [(&'static CStr, usize); 24] {
    macro_rules! to {
        ($function:expr) => {
            $function as *const () as usize
        };
    }
    [
        (c"IsApiSetImplemented", to!(library::is_api_set_implemented)),
        (c"LoadLibraryExW", to!(library::load_library)),
        (c"GetProcAddress", to!(library::get_proc_address)),
        (c"UpdateProcThreadAttribute", to!(launch::update)),
        (c"DeleteProcThreadAttributeList", to!(launch::delete)),
        (c"CreateProcessW", to!(launch::create)),
        (c"ResumeThread", to!(launch::resume)),
        (c"TerminateProcess", to!(launch::terminate)),
        (c"CloseHandle", to!(launch::close)),
        (c"AssignProcessToJobObject", to!(job::assign)),
        (c"TerminateJobObject", to!(job::terminate)),
        (c"SetInformationJobObject", to!(job::set)),
        (c"QueryInformationJobObject", to!(job::query)),
        (c"OpenProcessToken", to!(token::open)),
        (c"GetTokenInformation", to!(token::information)),
        (c"socket", to!(unix_socket::socket)),
        (c"WSASocketW", to!(unix_socket::wsa_socket)),
        (c"bind", to!(unix_socket::bind)),
        (c"connect", to!(unix_socket::connect)),
        (c"accept", to!(unix_socket::accept)),
        (c"getsockname", to!(unix_socket::name)),
        (c"getpeername", to!(unix_socket::peer)),
        (c"closesocket", to!(unix_socket::close)),
        (c"WSAIoctl", to!(unix_socket::ioctl)),
    ]
}

/// What Wine has no function for, by the library that has it on Windows.
pub fn added() -> [(&'static CStr, usize); 8] {
    [
        (c"CreateAppContainerProfile", appcontainer::create as *const () as usize),
        (c"DeriveAppContainerSidFromAppContainerName", appcontainer::derive as *const () as usize),
        (c"DeleteAppContainerProfile", appcontainer::delete as *const () as usize),
        (
            c"CreateProcessSecurityEnvironment",
            environment::CreateProcessSecurityEnvironment as *const () as usize,
        ),
        (
            c"CloseProcessSecurityEnvironment",
            environment::CloseProcessSecurityEnvironment as *const () as usize,
        ),
        (
            c"QueryProcessSecurityEnvironmentSupport",
            environment::QueryProcessSecurityEnvironmentSupport as *const () as usize,
        ),
        (
            c"IsProcessSecurityEnvironmentVersionSupported",
            environment::IsProcessSecurityEnvironmentVersionSupported as *const () as usize,
        ),
        (
            c"CancelProcessSecurityEnvironmentTerminateOnClose",
            environment::CancelProcessSecurityEnvironmentTerminateOnClose as *const () as usize,
        ),
    ]
}

/// Wine's addresses of what is replaced, each with ours.
fn addresses() -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for library in LIBRARIES {
        // SAFETY: the name ends in a zero; a library that is not loaded gives null, in which nothing is found.
        let module = unsafe { GetModuleHandleA(library.as_ptr().cast()) };
        if module.is_null() {
            continue;
        }
        for (name, ours) in replaced() {
            // SAFETY: the module is loaded and the name ends in a zero.
            if let Some(found) = unsafe { GetProcAddress(module, name.as_ptr().cast()) } {
                all.push((found as usize, ours));
            }
        }
    }
    all
}

/// Ours for an address of Wine's, when it is replaced.
pub fn ours(address: usize) -> Option<usize> {
    addresses().into_iter().find(|(theirs, _)| *theirs == address).map(|(_, ours)| ours)
}

/// Lead the main program's imports here.
pub fn install() {
    let swap = addresses();
    // SAFETY: null names the program's own image, which is loaded whole and stays; its headers are as the loader left
    // them and its import table ends in an entry of zeros. Other threads do not run yet.
    unsafe {
        let image: *mut u8 = GetModuleHandleA(std::ptr::null()).cast();
        let dos = &*image.cast::<IMAGE_DOS_HEADER>();
        let headers = &*image.add(dos.e_lfanew.unsigned_abs() as usize).cast::<IMAGE_NT_HEADERS64>();
        let imports = headers.OptionalHeader.DataDirectory[usize::from(IMAGE_DIRECTORY_ENTRY_IMPORT)];
        if imports.VirtualAddress == 0 {
            return;
        }
        let mut library = image.add(imports.VirtualAddress as usize).cast::<IMAGE_IMPORT_DESCRIPTOR>();
        while (*library).Name != 0 {
            let mut slot = image.add((*library).FirstThunk as usize).cast::<usize>();
            while *slot != 0 {
                if let Some((_, ours)) = swap.iter().find(|(theirs, _)| *theirs == *slot) {
                    let mut before = 0;
                    if VirtualProtect(slot.cast(), size_of::<usize>(), PAGE_READWRITE, &mut before) != 0 {
                        *slot = *ours;
                        VirtualProtect(slot.cast(), size_of::<usize>(), before, &mut before);
                    }
                }
                slot = slot.add(1);
            }
            library = library.add(1);
        }
    }
}
