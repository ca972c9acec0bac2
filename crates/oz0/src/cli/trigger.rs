//! `oz0 trigger`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use oz0_fleet::protocol::TriggerId;
use serde_json::json;

use super::table::table;
use super::{Answers, CliError, OfTenant, Result};
use crate::chance::{bytes, now};
use crate::edge::Source;
use crate::name::{Label, Name};
use crate::store::Store;
use crate::store::triggers::{Create, Trigger};
use crate::template::Template;

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a trigger; its address and its secret are shown once
    Create {
        #[command(flatten)]
        of: OfTenant,
        /// What it is called
        name: Name,
        /// Who sends: standard, github, cloudevents or slack
        #[arg(long)]
        source: Source,
        /// What its jobs do, as a JSON file
        #[arg(long, value_name = "FILE")]
        template: PathBuf,
        /// Take labels that no node has yet
        #[arg(long)]
        allow_unknown_labels: bool,
    },
    /// List triggers
    List {
        #[command(flatten)]
        of: OfTenant,
    },
}

pub(super) fn read_template(path: &Path) -> Result<Template> {
    let text = std::fs::read(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    Ok(serde_json::from_slice(&text)?)
}

impl Verb {
    pub(super) async fn run(self, store: &Store, out: &mut Answers<'_, impl Write>) -> Result<()> {
        match self {
            Verb::Create { of, name, source, template, allow_unknown_labels } => {
                let tenant = of.find(store).await?.tenant;
                let template = read_template(&template)?;
                template.check(true)?;
                if !allow_unknown_labels {
                    let nodes = store.nodes(tenant).await?;
                    let known: Vec<&Label> = nodes.iter().flat_map(|node| &node.labels).collect();
                    known_labels(&template, &known)?;
                }
                let trigger = Trigger {
                    trigger: TriggerId::from_bytes(bytes()?),
                    tenant,
                    name,
                    source,
                    secret: source.secret(bytes()?),
                    template,
                    created: now(),
                };
                let id = trigger.trigger;
                let secret = trigger.secret.clone();
                let name = trigger.name.clone();
                if !store.act(Create(trigger)).await? {
                    return Err(CliError::Taken(name));
                }
                let path = format!("/in/{id}");
                out.give(&json!({"trigger": id, "path": path, "secret": secret.reveal()}), || {
                    format!("path    {path}\nsecret  {}", secret.reveal())
                })
            }
            Verb::List { of } => {
                let triggers = store.triggers(of.find(store).await?.tenant).await?;
                out.give(&triggers, || {
                    let row = |trigger: &Trigger| {
                        [
                            trigger.name.to_string(),
                            trigger.source.to_string(),
                            format!("/in/{}", trigger.trigger),
                        ]
                    };
                    table(["trigger", "source", "path"], triggers.iter().map(row))
                })
            }
        }
    }
}

/// C167: a label that no node has is a mistake until somebody says that it is none.
fn known_labels(template: &Template, known: &[&Label]) -> Result<()> {
    let Some(label) = template.labels.iter().find(|label| !known.contains(label)) else { return Ok(()) };
    let label = label.to_string();
    let nearest = known.iter().map(|known| known.to_string()).min_by_key(|known| distance(known, &label));
    let near = nearest.map(|near| format!(": is {near} meant?")).unwrap_or_default();
    Err(CliError::Label { label, near })
}

/// How many letters have to be changed, put in or left out.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (place, letter) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], place + 1);
        for (column, other) in two.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn c167_a_label_that_no_node_has_is_asked_about() {
        let template: Template = serde_json::from_value(json!({
            "work": {"kind": "command", "tier": "tier 1", "command": ["true"]}, "labels": ["docker"],
        }))
        .unwrap();
        let (near, far): (Label, Label) = ("dockr".parse().unwrap(), "gpu".parse().unwrap());
        let error = known_labels(&template, &[&far, &near]).unwrap_err().to_string();
        assert!(error.starts_with("no node of this tenant has the label docker: is dockr meant?"), "{error}");
        assert!(known_labels(&template, &[&"docker".parse().unwrap()]).is_ok());
        assert_eq!([distance("", "ab"), distance("kitten", "sitting"), distance("a", "a")], [2, 3, 0]);
    }
}
