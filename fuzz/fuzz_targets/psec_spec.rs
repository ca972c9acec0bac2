//! PSEC's specification: no bytes panic or take memory out of proportion, and what is one of ours is written again
//! as what it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oz0_sandbox::backend::psec::spec::{Specification, encode, wire};

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = wire::read(bytes) else {
        assert!(wire::parts(bytes).is_err());
        return;
    };
    // Every byte is accounted for, once.
    let mut end = 0;
    for part in wire::parts(bytes).expect("what is read has parts") {
        assert!(part.bytes.start >= end && part.bytes.end <= bytes.len());
        end = part.bytes.end;
    }
    if let Ok((version, specification)) = Specification::meant_by(&read) {
        let again = wire::read(&encode(&specification, version)).expect("what is written is read");
        assert_eq!(again, read);
    }
});
