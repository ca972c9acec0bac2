//! PowerShell scripts, parsed. Knows nothing of types and nothing of what a command does.
//!
//! What this grammar misses: `else` alone, `try` without `catch`, assigning to a literal, `param` that is not first.
//! What it takes for a mistake and is none: a `switch` with two clauses in one line.

use tree_sitter::{Node, Parser, Tree};

/// A script that was parsed, with its mistakes.
pub struct Script {
    text: Vec<u8>,
    tree: Tree,
}

impl Script {
    pub fn parse(text: &[u8]) -> Self {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_pwsh::LANGUAGE.into()).expect("the grammar goes with the parser");
        let tree = parser.parse(text, None).expect("no time limit is set");
        Script { text: text.to_vec(), tree }
    }

    /// Each place that does not parse, as `line:column: what`.
    pub fn mistakes(&self) -> Vec<String> {
        let mut found = Vec::new();
        visit(self.tree.root_node(), &mut |node| {
            let place = node.start_position();
            if node.is_missing() {
                found.push(format!("{}:{}: {} is missing", place.row + 1, place.column + 1, node.kind()));
            } else if node.is_error() {
                found.push(format!("{}:{}: not understood", place.row + 1, place.column + 1));
            }
        });
        found
    }

    /// The names of the commands that it calls and of the functions that it defines.
    pub fn names(&self, kind: &str) -> Vec<String> {
        let mut found = Vec::new();
        visit(self.tree.root_node(), &mut |node| {
            if node.kind() == kind {
                found.push(node.utf8_text(&self.text).expect("scripts are UTF-8").to_owned());
            }
        });
        found.sort();
        found.dedup();
        found
    }
}

fn visit(node: Node<'_>, look: &mut impl FnMut(Node<'_>)) {
    look(node);
    let mut walk = node.walk();
    for child in node.children(&mut walk) {
        visit(child, look);
    }
}
