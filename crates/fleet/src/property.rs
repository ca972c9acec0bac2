//! The eight properties of tier 1: the one list that node and control plane share. How each is looked at is the
//! self-test's business.

crate::word::words! {
    /// What must hold for tier 1, in the order in which it is looked at.
    pub enum Property, "one of the eight properties" {
        /// A process starts, and all end together.
        Launch = "launch",
        /// Only the granted files.
        Files = "files",
        /// Only the allowed hosts.
        Egress = "egress",
        /// Nobody outside connects.
        Ingress = "ingress",
        /// Memory, processes and CPU are held.
        JobLimits = "job_limits",
        /// Without its limits nothing runs.
        FailClosed = "fail_closed",
        /// What other programs execute stays as it was.
        ProtectedPaths = "protected_paths",
        /// Only the variables that were passed.
        Environment = "environment",
    }
}

impl Property {
    /// What holds, in one sentence.
    pub const fn holds(self) -> &'static str {
        match self {
            Property::Launch => {
                "A process starts in the container and writes in its working directory, and every process it \
                 starts ends when it ends."
            }
            Property::Files => {
                "Nothing outside the granted folders is written, and the node's data directory and key are not \
                 read or listed."
            }
            Property::Egress => {
                "The network is reached only through the egress proxy, with the run's token and to the hosts \
                 of its allowlist."
            }
            Property::Ingress => "Nothing outside the container connects to a process that listens in it.",
            Property::JobLimits => {
                "Memory, number of processes and CPU of all processes together are held to their limits, and \
                 all end when the job closes."
            }
            Property::FailClosed => "A process that cannot be put under its limits never runs.",
            Property::ProtectedPaths => {
                "Git's hooks and configuration and agents' settings are read-only and are not renamed aside, \
                 while the rest of the repository stays writable."
            }
            Property::Environment => {
                "A process gets the variables that were passed to it and none of the node's own, nor can it \
                 read them from another process."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_are_in_their_order() {
        assert_eq!(
            Property::ALL.map(Property::word),
            [
                "launch",
                "files",
                "egress",
                "ingress",
                "job_limits",
                "fail_closed",
                "protected_paths",
                "environment"
            ]
        );
        assert!(Property::ALL.is_sorted());
    }

    /// C139: other spellings, case and spaces are refused, on both sides.
    #[test]
    fn c139_a_property_has_one_spelling() {
        for property in Property::ALL {
            let word = property.word();
            assert_eq!(word.parse(), Ok(property));
            let json = serde_json::to_string(&property).unwrap();
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<Property>(&json).unwrap(), property);
            let mut others =
                vec![word.to_uppercase(), format!(" {word}"), format!("{word} "), format!("{word}\0")];
            others.push(word[1..].to_owned());
            others.push(word.replacen('_', "-", 1) + if word.contains('_') { "" } else { "s" });
            for other in others {
                assert!(other.parse::<Property>().is_err(), "{other:?}");
            }
        }
    }

    #[test]
    fn each_says_in_one_sentence_what_holds() {
        for property in Property::ALL {
            let sentence = property.holds();
            assert!(sentence.ends_with('.') && sentence.matches('.').count() == 1, "{sentence}");
        }
    }
}
