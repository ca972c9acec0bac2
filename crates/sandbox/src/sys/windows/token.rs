//! What a process really is, asked of its token: AppContainer or not, which one, how much it is trusted.

use std::os::windows::io::{AsHandle as _, BorrowedHandle, OwnedHandle};

use windows::Win32::Foundation::{ERROR_INSUFFICIENT_BUFFER, HANDLE};
use windows::Win32::Security::{
    GetTokenInformation, TOKEN_APPCONTAINER_INFORMATION, TOKEN_ELEVATION, TOKEN_GROUPS,
    TOKEN_INFORMATION_CLASS, TOKEN_MANDATORY_LABEL, TOKEN_QUERY, TOKEN_USER, TokenAppContainerSid,
    TokenCapabilities, TokenElevation, TokenIntegrityLevel, TokenIsAppContainer,
    TokenIsLessPrivilegedAppContainer, TokenUser,
};
use windows::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::error::CallError;
use super::handle::{own, raw};
use super::sid::Sid;

const CALL: &str = "GetTokenInformation";

/// The level of a container's processes: SECURITY_MANDATORY_LOW_RID (winnt.h; measured on 26200.9457).
pub const LOW: u32 = 0x1000;

/// A process's token, open for questions alone.
pub struct Token(OwnedHandle);

impl Token {
    /// Of a process, suspended or not.
    pub fn of(process: BorrowedHandle<'_>) -> Result<Token, CallError> {
        Token::open(raw(process))
    }

    /// Of this process.
    pub fn own() -> Result<Token, CallError> {
        // SAFETY: takes and gives nothing; the pseudo handle needs no closing.
        Token::open(unsafe { GetCurrentProcess() })
    }

    fn open(process: HANDLE) -> Result<Token, CallError> {
        let mut token = HANDLE::default();
        // SAFETY: the process is borrowed by the caller for the call, `token` lives on this stack.
        unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) }
            .map_err(CallError::of("OpenProcessToken"))?;
        // SAFETY: just opened, and known here alone.
        Ok(Token(unsafe { own(token) }))
    }

    /// Whether the process is in an AppContainer, which a process security environment makes too.
    pub fn is_app_container(&self) -> Result<bool, CallError> {
        self.number(TokenIsAppContainer).map(|number| number != 0)
    }

    /// Whether it is a less-privileged one, which PSEC cannot make.
    pub fn is_less_privileged(&self) -> Result<bool, CallError> {
        self.number(TokenIsLessPrivilegedAppContainer).map(|number| number != 0)
    }

    /// Whether it has an administrator's rights at hand.
    pub fn is_elevated(&self) -> Result<bool, CallError> {
        // TOKEN_ELEVATION is one DWORD (winnt.h).
        const { assert!(size_of::<TOKEN_ELEVATION>() == 4) };
        self.number(TokenElevation).map(|number| number != 0)
    }

    /// The AppContainer's identifier, none outside of one.
    pub fn app_container_sid(&self) -> Result<Option<Sid>, CallError> {
        let answer = self.answer(TokenAppContainerSid)?;
        // SAFETY: the answer of this class begins with this structure, in memory aligned for it.
        let sid = unsafe { answer.head::<TOKEN_APPCONTAINER_INFORMATION>() }?.TokenAppContainer;
        if sid.is_invalid() {
            return Ok(None);
        }
        // SAFETY: the identifier lies in the answer, which lives until the end of this function.
        unsafe { Sid::copy(sid) }.map(Some)
    }

    /// The capabilities, by their identifiers.
    pub fn capabilities(&self) -> Result<Vec<Sid>, CallError> {
        let answer = self.answer(TokenCapabilities)?;
        // SAFETY: the answer of this class begins with this structure, in memory aligned for it.
        let groups = unsafe { answer.head::<TOKEN_GROUPS>() }?;
        let offset = std::mem::offset_of!(TOKEN_GROUPS, Groups);
        (0..groups.GroupCount as usize)
            .map(|place| {
                // SAFETY: an array of `GroupCount` entries begins at `offset`; `at` holds it to the answer's length.
                let entry =
                    unsafe { answer.at::<windows::Win32::Security::SID_AND_ATTRIBUTES>(offset, place) }?;
                // SAFETY: the identifier lies in the answer, which lives until the end of this function.
                unsafe { Sid::copy(entry.Sid) }
            })
            .collect()
    }

    /// The integrity level, such as [`LOW`].
    pub fn integrity(&self) -> Result<u32, CallError> {
        let answer = self.answer(TokenIntegrityLevel)?;
        // SAFETY: the answer of this class begins with this structure, in memory aligned for it.
        let label = unsafe { answer.head::<TOKEN_MANDATORY_LABEL>() }?.Label;
        // SAFETY: the identifier lies in the answer, which lives until the end of this function.
        let sid = unsafe { Sid::copy(label.Sid) }?;
        sid.last_part().ok_or(CallError::win32(CALL, 0))
    }

    /// The user whose process it is.
    pub fn user(&self) -> Result<Sid, CallError> {
        let answer = self.answer(TokenUser)?;
        // SAFETY: the answer of this class begins with this structure, in memory aligned for it.
        let user = unsafe { answer.head::<TOKEN_USER>() }?.User;
        // SAFETY: the identifier lies in the answer, which lives until the end of this function.
        unsafe { Sid::copy(user.Sid) }
    }

    fn number(&self, class: TOKEN_INFORMATION_CLASS) -> Result<u32, CallError> {
        let (mut number, mut length) = (0_u32, 0_u32);
        // SAFETY: the token is open, both results live on this stack, the size is the number's.
        unsafe {
            GetTokenInformation(
                raw(self.0.as_handle()),
                class,
                Some((&raw mut number).cast()),
                size_of::<u32>() as u32,
                &raw mut length,
            )
        }
        .map_err(CallError::of(CALL))?;
        Ok(number)
    }

    fn answer(&self, class: TOKEN_INFORMATION_CLASS) -> Result<Answer, CallError> {
        let mut length = 0_u32;
        // SAFETY: the token is open; asked without memory it only writes the length.
        let asked = unsafe { GetTokenInformation(raw(self.0.as_handle()), class, None, 0, &raw mut length) };
        match asked.map_err(CallError::of(CALL)) {
            Ok(()) => {}
            Err(error) if error.win32_code() == Some(ERROR_INSUFFICIENT_BUFFER.0) => {}
            Err(error) => return Err(error),
        }
        let mut memory = vec![0_u64; (length as usize).div_ceil(size_of::<u64>())];
        // SAFETY: the token is open, `memory` has at least `length` bytes.
        unsafe {
            GetTokenInformation(
                raw(self.0.as_handle()),
                class,
                Some(memory.as_mut_ptr().cast()),
                length,
                &raw mut length,
            )
        }
        .map_err(CallError::of(CALL))?;
        Ok(Answer(memory))
    }
}

/// What GetTokenInformation wrote: a structure, and what its pointers lead to, in one piece of memory.
struct Answer(Vec<u64>);

impl Answer {
    /// The structure at the beginning.
    ///
    /// # Safety
    /// The answer is of the class that begins with a `T`.
    unsafe fn head<T: Copy>(&self) -> Result<T, CallError> {
        // SAFETY: the caller's promise.
        unsafe { self.at(0, 0) }
    }

    /// The `place`th `T` from an offset.
    ///
    /// # Safety
    /// The answer is of a class that holds a `T` there.
    unsafe fn at<T: Copy>(&self, offset: usize, place: usize) -> Result<T, CallError> {
        let begin = offset + place * size_of::<T>();
        if begin + size_of::<T>() > self.0.len() * size_of::<u64>() {
            return Err(CallError::win32(CALL, 0));
        }
        // SAFETY: within the memory, as just asked, and holding a `T` by the caller's promise.
        Ok(unsafe { self.0.as_ptr().cast::<u8>().add(begin).cast::<T>().read_unaligned() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lab;
    use super::*;

    #[test]
    fn class_numbers_are_those_of_winnt_h() {
        let numbers = [
            TokenIntegrityLevel,
            TokenIsAppContainer,
            TokenCapabilities,
            TokenAppContainerSid,
            TokenIsLessPrivilegedAppContainer,
        ];
        assert_eq!(numbers.map(|class| class.0), [25, 29, 30, 31, 46]);
    }

    #[test]
    fn an_ordinary_process_is_in_no_container() {
        let token = Token::own().expect("a token");
        assert_eq!(token.is_app_container(), Ok(false));
        assert_eq!(token.app_container_sid(), Ok(None));
        assert!(token.integrity().expect("a level") > LOW);
        assert!(token.user().expect("a user").to_string().starts_with("S-1-5-"));
        token.is_elevated().expect("an answer");
        if lab::is_wine() && !lab::has_stand_in() {
            // Wine alone does not know these classes: ERROR_INVALID_FUNCTION.
            assert_eq!(token.is_less_privileged(), Err(CallError::win32(CALL, 1)));
            assert_eq!(token.capabilities(), Err(CallError::win32(CALL, 1)));
        } else {
            assert_eq!(token.is_less_privileged(), Ok(false));
            assert_eq!(token.capabilities(), Ok(vec![]));
        }
    }
}
