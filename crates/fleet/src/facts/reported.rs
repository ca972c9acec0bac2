//! A report as it comes in, from a node that may be anyone's: what matches is kept, the rest is gone.

use serde::de::{IgnoredAny, MapAccess};
use serde::{Deserialize, Deserializer};

use super::{Edition, Facts, Linux, Psec, System, Windows};
use crate::word::{Admitted, Kept, words};
use crate::{Platform, Tier};

/// A report that has been read. Reading never fails on account of what it says, only where it is not JSON.
///
/// It holds nothing of the sender's but numbers and known words, and takes the same little room whatever was
/// sent. How much is read at all is for whoever reads from the network to bound: [`Reported::LONGEST`] is more
/// than any node of ours sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported(Facts);

impl Reported {
    /// No report of ours is longer than this many bytes.
    pub const LONGEST: usize = 2048;

    /// What is believed of it: tier 1 only where the rest of the report agrees with it.
    pub const fn facts(self) -> Facts {
        self.0
    }
}

words! {
    /// The fields of a report.
    pub enum Field, "a field" {
        /// The platform.
        Platform = "platform",
        /// The tier that was asked for.
        Asked = "asked",
        /// The tier that is claimed.
        Tier = "tier",
        /// What confines a run.
        Mechanism = "mechanism",
        /// The property that failed.
        Failed = "failed",
        /// Linux: the kernel.
        Kernel = "kernel",
        /// Linux: the user.
        User = "user",
        /// Linux: the namespaces.
        Namespaces = "namespaces",
        /// Linux: the cgroup.
        Cgroup = "cgroup",
        /// Linux: Landlock.
        Landlock = "landlock",
        /// Linux: the system-call filter.
        Seccomp = "seccomp",
        /// Windows: the build.
        Build = "build",
        /// Windows: the edition.
        Edition = "edition",
        /// Windows: PSEC.
        Psec = "psec",
        /// Windows: the contract.
        Contract = "contract",
        /// Windows: the features.
        Features = "features",
    }
}

/// One field while it is read. Said twice is not said.
struct Said<T> {
    before: bool,
    kept: Option<T>,
}

impl<T> Default for Said<T> {
    fn default() -> Self {
        Said { before: false, kept: None }
    }
}

impl<T: Admitted> Said<T> {
    fn read<'de, A: MapAccess<'de>>(&mut self, entries: &mut A) -> Result<(), A::Error> {
        let Kept(value) = entries.next_value()?;
        self.kept = if self.before { None } else { value };
        self.before = true;
        Ok(())
    }
}

/// Every field a report may have.
#[derive(Default)]
struct Fields {
    platform: Said<Platform>,
    asked: Said<Tier>,
    tier: Said<Tier>,
    mechanism: Said<super::Mechanism>,
    failed: Said<crate::Property>,
    kernel: Said<super::Kernel>,
    user: Said<super::User>,
    namespaces: Said<super::Namespaces>,
    cgroup: Said<super::Cgroup>,
    landlock: Said<super::Landlock>,
    seccomp: Said<super::Seccomp>,
    build: Said<super::Build>,
    edition: Said<Edition>,
    psec: Said<Psec>,
    contract: Said<super::Contract>,
    features: Said<super::Features>,
}

impl Fields {
    fn read<'de, A: MapAccess<'de>>(&mut self, entries: &mut A) -> Result<(), A::Error> {
        while let Some(Kept(field)) = entries.next_key::<Kept<Field>>()? {
            match field {
                None => entries.next_value::<IgnoredAny>().map(drop),
                Some(Field::Platform) => self.platform.read(entries),
                Some(Field::Asked) => self.asked.read(entries),
                Some(Field::Tier) => self.tier.read(entries),
                Some(Field::Mechanism) => self.mechanism.read(entries),
                Some(Field::Failed) => self.failed.read(entries),
                Some(Field::Kernel) => self.kernel.read(entries),
                Some(Field::User) => self.user.read(entries),
                Some(Field::Namespaces) => self.namespaces.read(entries),
                Some(Field::Cgroup) => self.cgroup.read(entries),
                Some(Field::Landlock) => self.landlock.read(entries),
                Some(Field::Seccomp) => self.seccomp.read(entries),
                Some(Field::Build) => self.build.read(entries),
                Some(Field::Edition) => self.edition.read(entries),
                Some(Field::Psec) => self.psec.read(entries),
                Some(Field::Contract) => self.contract.read(entries),
                Some(Field::Features) => self.features.read(entries),
            }?;
        }
        Ok(())
    }

    /// Fields of another platform than the one named are dropped here.
    fn facts(self) -> Facts {
        let system = match self.platform.kept {
            Some(Platform::Linux) => System::Linux(Linux {
                kernel: self.kernel.kept,
                user: self.user.kept,
                namespaces: self.namespaces.kept,
                cgroup: self.cgroup.kept,
                landlock: self.landlock.kept,
                seccomp: self.seccomp.kept,
            }),
            Some(Platform::Windows) => System::Windows(Windows {
                build: self.build.kept,
                edition: self.edition.kept.unwrap_or(Edition::Unknown),
                psec: self.psec.kept.unwrap_or(Psec::NotProbed),
                contract: self.contract.kept,
                features: self.features.kept,
            }),
            Some(Platform::Macos) => System::Macos,
            Some(Platform::Other) | None => System::Other,
        };
        let facts = Facts {
            asked: self.asked.kept.unwrap_or(Tier::Zero),
            tier: self.tier.kept.unwrap_or(Tier::Zero),
            mechanism: self.mechanism.kept,
            failed: self.failed.kept,
            system,
        };
        facts.rechecked()
    }
}

impl Admitted for Reported {
    fn from_map<'de, A: MapAccess<'de>>(entries: &mut A) -> Result<Option<Self>, A::Error> {
        let mut fields = Fields::default();
        fields.read(entries)?;
        Ok(Some(Reported(fields.facts())))
    }
}

impl<'de> Deserialize<'de> for Reported {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Kept(reported) = Kept::deserialize(deserializer)?;
        Ok(reported.unwrap_or_else(|| Reported(Fields::default().facts())))
    }
}

#[cfg(test)]
mod tests;
