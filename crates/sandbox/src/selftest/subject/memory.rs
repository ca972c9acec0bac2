//! Using memory so that the system must really give it.

/// The smallest page of any system.
const PAGE: usize = 4096;

/// Memory of which every page has been written.
pub(super) fn touched(bytes: u64) -> Vec<u8> {
    let mut memory = vec![0u8; usize::try_from(bytes).unwrap_or(usize::MAX)];
    // Zero pages cost nothing until they are written.
    for byte in memory.iter_mut().step_by(PAGE) {
        *byte = 1;
    }
    std::hint::black_box(memory)
}
