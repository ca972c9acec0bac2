//! Columns as values: by position, strictly.

use std::str::FromStr;

use oz0_fleet::protocol::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Result, StoreError};

/// A row that is read from left to right.
pub(super) struct Columns<'a> {
    row: &'a AnyRow,
    table: &'static str,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(super) const fn of(table: &'static str, row: &'a AnyRow) -> Columns<'a> {
        Columns { row, table, next: 0 }
    }

    const fn bad(&self) -> StoreError {
        StoreError::Row { table: self.table }
    }

    const fn place(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn maybe_text(&mut self) -> Result<Option<String>> {
        let place = self.place();
        self.row.try_get(place).map_err(|_| self.bad())
    }

    pub(super) fn text(&mut self) -> Result<String> {
        self.maybe_text()?.ok_or(self.bad())
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        let place = self.place();
        self.row.try_get(place).map_err(|_| self.bad())
    }

    pub(super) fn maybe_number(&mut self) -> Result<Option<i64>> {
        let place = self.place();
        self.row.try_get(place).map_err(|_| self.bad())
    }

    /// A number of any size that fits.
    pub(super) fn number<T: TryFrom<i64>>(&mut self) -> Result<T> {
        self.maybe_number()?.and_then(|number| number.try_into().ok()).ok_or(self.bad())
    }

    pub(super) fn flag(&mut self) -> Result<bool> {
        Ok(self.number::<i64>()? != 0)
    }

    pub(super) fn maybe_time(&mut self) -> Result<Option<Timestamp>> {
        let number = self.maybe_number()?;
        number
            .map(|number| u64::try_from(number).map(Timestamp::from_milliseconds).map_err(|_| self.bad()))
            .transpose()
    }

    pub(super) fn time(&mut self) -> Result<Timestamp> {
        self.maybe_time()?.ok_or(self.bad())
    }

    /// A word or an id, in its exact form.
    pub(super) fn maybe_word<T: FromStr>(&mut self) -> Result<Option<T>> {
        let text = self.maybe_text()?;
        text.map(|text| text.parse().map_err(|_| self.bad())).transpose()
    }

    pub(super) fn word<T: FromStr>(&mut self) -> Result<T> {
        self.maybe_word()?.ok_or(self.bad())
    }

    pub(super) fn maybe_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let text = self.maybe_text()?;
        text.map(|text| serde_json::from_str(&text).map_err(|_| self.bad())).transpose()
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.maybe_json()?.ok_or(self.bad())
    }
}

/// A time as it is kept.
pub(super) fn kept(at: Timestamp) -> i64 {
    i64::try_from(at.milliseconds()).unwrap_or(i64::MAX)
}

/// A value as JSON text. What is kept here always can be written: maps have text as their keys.
pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
