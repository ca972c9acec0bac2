//! AF_UNIX, which Wine lacks, over loopback TCP: the socket's file is an ordinary one and holds the port. What Windows
//! documents of it is kept: streams alone, paths of 107 bytes at most, a file that is there already is in the way.

use std::ffi::c_void;
use std::net::Ipv4Addr;

use windows_sys::Win32::Networking::WinSock::{
    AF_INET, AF_UNIX, INVALID_SOCKET, IPPROTO_TCP, SOCK_STREAM, SOCKADDR, SOCKADDR_IN, SOCKADDR_UN, SOCKET,
    SOCKET_ERROR, WSAEACCES, WSAEADDRINUSE, WSAECONNREFUSED, WSAEFAULT, WSAEINVAL, WSAESOCKTNOSUPPORT,
    WSAGetLastError, WSAIoctl, WSAPROTOCOL_INFOW, WSASetLastError, WSASocketW, accept as theirs_accept,
    bind as theirs_bind, closesocket, connect as theirs_connect, getpeername, getsockname,
    socket as theirs_socket,
};

use super::state::with;

const FAMILY: i32 = AF_UNIX as i32;
/// SIO_AF_UNIX_GETPEERPID: afunix.h.
const PEER_PID: u32 = 0x5800_0100;

fn refuse(error: i32) -> i32 {
    // SAFETY: it only sets this thread's last error.
    unsafe { WSASetLastError(error) };
    SOCKET_ERROR
}

fn note(socket: SOCKET) -> SOCKET {
    if socket != INVALID_SOCKET {
        with(|state| state.sockets.insert(socket, None));
    }
    socket
}

fn is_ours(socket: SOCKET) -> bool {
    with(|state| state.sockets.contains_key(&socket))
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn socket(family: i32, kind: i32, protocol: i32) -> SOCKET {
    // SAFETY: numbers alone.
    unsafe {
        match (family, kind) {
            (FAMILY, SOCK_STREAM) => note(theirs_socket(AF_INET.into(), SOCK_STREAM, IPPROTO_TCP)),
            (FAMILY, _) => {
                refuse(WSAESOCKTNOSUPPORT);
                INVALID_SOCKET
            }
            _ => theirs_socket(family, kind, protocol),
        }
    }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn wsa_socket(
    family: i32,
    kind: i32,
    protocol: i32,
    information: *const WSAPROTOCOL_INFOW,
    group: u32,
    flags: u32,
) -> SOCKET {
    // SAFETY: the caller's own arguments, or numbers.
    unsafe {
        match (family, kind) {
            (FAMILY, SOCK_STREAM) => {
                note(WSASocketW(AF_INET.into(), SOCK_STREAM, IPPROTO_TCP, std::ptr::null(), group, flags))
            }
            (FAMILY, _) => {
                refuse(WSAESOCKTNOSUPPORT);
                INVALID_SOCKET
            }
            _ => WSASocketW(family, kind, protocol, information, group, flags),
        }
    }
}

/// # Safety
/// `address` has `length` bytes.
unsafe fn path(address: *const SOCKADDR, length: i32) -> Result<String, i32> {
    let length = usize::try_from(length).unwrap_or(0);
    let head = std::mem::offset_of!(SOCKADDR_UN, sun_path);
    if address.is_null() || length <= head || length > size_of::<SOCKADDR_UN>() {
        return Err(WSAEFAULT);
    }
    // SAFETY: the caller's address, of the length that it says.
    let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), length) };
    if u16::from_le_bytes([bytes[0], bytes[1]]) != AF_UNIX {
        return Err(WSAEFAULT);
    }
    let bytes = &bytes[head..];
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    // The 108th byte is the zero's.
    if end == 0 || end > 107 {
        return Err(WSAEINVAL);
    }
    String::from_utf8(bytes[..end].to_vec()).map_err(|_| WSAEINVAL)
}

fn loopback(port: u16) -> SOCKADDR_IN {
    let mut address = SOCKADDR_IN { sin_family: AF_INET, sin_port: port.to_be(), ..Default::default() };
    address.sin_addr.S_un.S_addr = u32::from(Ipv4Addr::LOCALHOST).to_be();
    address
}

fn size_of_in() -> i32 {
    i32::try_from(size_of::<SOCKADDR_IN>()).unwrap_or(0)
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn bind(socket: SOCKET, address: *const SOCKADDR, length: i32) -> i32 {
    if !is_ours(socket) {
        // SAFETY: the caller's own arguments.
        return unsafe { theirs_bind(socket, address, length) };
    }
    // SAFETY: the caller's address.
    let path = match unsafe { path(address, length) } {
        Ok(path) => path,
        Err(error) => return refuse(error),
    };
    let file = match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return refuse(WSAEADDRINUSE),
        Err(_) => return refuse(WSAEACCES),
    };
    let mut bound = loopback(0);
    let mut size = size_of_in();
    // SAFETY: addresses of our own with their size.
    unsafe {
        if theirs_bind(socket, (&raw const bound).cast(), size) != 0
            || getsockname(socket, (&raw mut bound).cast(), &mut size) != 0
        {
            let error = WSAGetLastError();
            let _ = std::fs::remove_file(&path);
            return refuse(error);
        }
    }
    if std::io::Write::write_all(&mut &file, u16::from_be(bound.sin_port).to_string().as_bytes()).is_err() {
        return refuse(WSAEACCES);
    }
    with(|state| state.sockets.insert(socket, Some(path)));
    0
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn connect(socket: SOCKET, address: *const SOCKADDR, length: i32) -> i32 {
    if !is_ours(socket) {
        // SAFETY: the caller's own arguments.
        return unsafe { theirs_connect(socket, address, length) };
    }
    // SAFETY: the caller's address.
    let path = match unsafe { path(address, length) } {
        Ok(path) => path,
        Err(error) => return refuse(error),
    };
    let Some(port) = std::fs::read_to_string(&path).ok().and_then(|text| text.parse().ok()) else {
        return refuse(WSAECONNREFUSED);
    };
    let address = loopback(port);
    // SAFETY: an address of our own with its size.
    unsafe { theirs_connect(socket, (&raw const address).cast(), size_of_in()) }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn accept(socket: SOCKET, address: *mut SOCKADDR, length: *mut i32) -> SOCKET {
    if !is_ours(socket) {
        // SAFETY: the caller's own arguments.
        return unsafe { theirs_accept(socket, address, length) };
    }
    // SAFETY: the one who connects has no name of its own; the address is given below.
    let accepted = note(unsafe { theirs_accept(socket, std::ptr::null_mut(), std::ptr::null_mut()) });
    if accepted != INVALID_SOCKET && !address.is_null() {
        // SAFETY: the caller's places.
        unsafe { give("", address, length) };
    }
    accepted
}

/// An address with this path, cut to what fits.
///
/// # Safety
/// `address` has `*length` bytes, and `length` is a place.
unsafe fn give(path: &str, address: *mut SOCKADDR, length: *mut i32) {
    let mut bytes = AF_UNIX.to_le_bytes().to_vec();
    bytes.extend(path.bytes().chain([0]));
    // SAFETY: by the caller's word.
    unsafe {
        let room = usize::try_from(*length).unwrap_or(0);
        address.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len().min(room));
        *length = i32::try_from(bytes.len()).unwrap_or(0);
    }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn name(socket: SOCKET, address: *mut SOCKADDR, length: *mut i32) -> i32 {
    match with(|state| state.sockets.get(&socket).cloned()) {
        Some(path) => {
            // SAFETY: the caller's places.
            unsafe { give(&path.unwrap_or_default(), address, length) };
            0
        }
        // SAFETY: the caller's own arguments.
        None => unsafe { getsockname(socket, address, length) },
    }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn peer(socket: SOCKET, address: *mut SOCKADDR, length: *mut i32) -> i32 {
    // SAFETY: the caller's own arguments.
    let answer = unsafe { getpeername(socket, address, length) };
    if answer == 0 && is_ours(socket) {
        // SAFETY: as above.
        unsafe { give("", address, length) };
    }
    answer
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn close(socket: SOCKET) -> i32 {
    // The file stays, as on Windows.
    with(|state| state.sockets.remove(&socket));
    // SAFETY: the caller's own argument.
    unsafe { closesocket(socket) }
}

/// # Safety
/// As of the function that it stands in for.
#[allow(clippy::too_many_arguments, reason = "Windows' own")]
pub unsafe extern "system" fn ioctl(
    socket: SOCKET,
    code: u32,
    given: *const c_void,
    given_size: u32,
    answer: *mut c_void,
    answer_size: u32,
    returned: *mut u32,
    overlapped: *mut windows_sys::Win32::System::IO::OVERLAPPED,
    routine: windows_sys::Win32::Networking::WinSock::LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    if code == PEER_PID && is_ours(socket) {
        // Over TCP nobody knows; a caller that relies on it has to see that.
        return refuse(WSAEINVAL);
    }
    // SAFETY: the caller's own arguments.
    unsafe { WSAIoctl(socket, code, given, given_size, answer, answer_size, returned, overlapped, routine) }
}
