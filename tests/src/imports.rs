//! Which files of a crate import which others.
//!
//! A file is a module; its inline tests do not count. `use` declarations and paths in bodies (macros included) are
//! resolved through re-exports to the file that defines the item, so that a `mod.rs` that only re-exports depends on
//! nothing. Glob imports count as an import of the module that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;

use crate::sources;

/// A module's path in its crate; empty for the root.
type Module = Vec<String>;

/// Longest chain of re-exports that is followed.
const MAX_REEXPORTS: usize = 8;

/// The modules of a crate and what each uses.
pub struct Imports {
    modules: BTreeMap<Module, Uses>,
}

/// What one file declares and uses.
#[derive(Default)]
struct Uses {
    /// Names that the file imports, with the path that each stands for.
    names: BTreeMap<String, Vec<String>>,
    /// Every other path that the file writes, re-exports excepted.
    paths: BTreeSet<Vec<String>>,
}

impl Imports {
    /// Reads the crate in `folder`, such as `crates/vnfm-core`.
    ///
    /// # Errors
    /// When a file cannot be read or is not Rust.
    pub fn read(folder: &str) -> anyhow::Result<Self> {
        let source_folder = format!("{folder}/src");
        let mut modules = BTreeMap::new();
        for source in sources::files(&[&source_folder], ".rs")? {
            let path = Path::new(&source.path).strip_prefix(&source_folder)?;
            if source.is_test() || (path == Path::new("main.rs") && modules.contains_key(&vec![])) {
                continue;
            }
            let file = syn::parse_file(&source.text)
                .map_err(|error| anyhow::anyhow!("{}: {error}", source.path))?;
            let mut uses = Uses::default();
            uses.add(&file.items);
            modules.insert(module_of(path), uses);
        }
        Ok(Self { modules })
    }

    /// Every import of one file by another: (importing file, imported file), each by its module path.
    #[must_use]
    pub fn edges(&self) -> Vec<(String, String)> {
        let modules: Vec<_> = self.modules.keys().collect();
        let edges = self.graph();
        let edges = edges.all_edges();
        edges
            .map(|(from, to, ())| (name(modules[from]), name(modules[to])))
            .collect()
    }

    /// Imports among the modules, by their position in `modules`.
    fn graph(&self) -> DiGraphMap<usize, (), RandomState> {
        let modules: Vec<_> = self.modules.keys().collect();
        let mut graph = DiGraphMap::new();
        for (from, module) in modules.iter().enumerate() {
            graph.add_node(from);
            for imported in self.imported_by(module) {
                if let Ok(to) = modules.binary_search(&&imported)
                    && to != from
                {
                    graph.add_edge(from, to, ());
                }
            }
        }
        graph
    }

    /// Groups of files that import each other in a circle, the largest first; each file by its module path.
    #[must_use]
    pub fn circles(&self) -> Vec<Vec<String>> {
        let modules: Vec<_> = self.modules.keys().collect();
        let graph = self.graph();
        let mut circles: Vec<Vec<String>> = tarjan_scc(&graph)
            .into_iter()
            .filter(|circle| circle.len() > 1)
            .map(|circle| {
                circle
                    .into_iter()
                    .map(|index| name(modules[index]))
                    .collect()
            })
            .collect();
        for circle in &mut circles {
            circle.sort();
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    fn imported_by(&self, module: &Module) -> BTreeSet<Module> {
        let uses = &self.modules[module];
        uses.paths
            .iter()
            .filter_map(|path| self.resolve(module, path, 0))
            .collect()
    }

    /// The file that defines what `path` names when `module` writes it; `None` for other crates and for items of the
    /// module itself.
    fn resolve(&self, module: &Module, path: &[String], followed: usize) -> Option<Module> {
        let (mut current, mut rest) = self.start(module, path)?;
        while let Some((first, after)) = rest.split_first() {
            let child = joined(&current, first);
            if self.modules.contains_key(&child) {
                (current, rest) = (child, after);
                continue;
            }
            let alias = self.modules.get(&current)?.names.get(first);
            let is_followed = followed < MAX_REEXPORTS && (current != *module || followed > 0);
            if let Some(alias) = alias.filter(|_| is_followed) {
                let target: Vec<_> = alias.iter().chain(after).cloned().collect();
                let defined_in = self.resolve(&current, &target, followed + 1);
                return defined_in.or(Some(current));
            }
            break;
        }
        Some(current)
    }

    /// Where the search for `path` begins, and the rest of the path from there.
    fn start<'a>(&self, module: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((module.clone(), rest)),
            "super" => {
                let levels = path.iter().take_while(|part| *part == "super").count();
                let kept = module.len().checked_sub(levels)?;
                Some((module[..kept].to_vec(), &path[levels..]))
            }
            _ if self.modules.contains_key(&joined(module, first)) => Some((module.clone(), path)),
            _ => {
                let alias = self.modules.get(module)?.names.get(first)?;
                let is_ours = alias.first().is_some_and(|start| {
                    matches!(start.as_str(), "crate" | "self" | "super")
                        || self.modules.contains_key(&joined(module, start))
                });
                is_ours.then(|| (module.clone(), path))
            }
        }
    }
}

impl Uses {
    fn add(&mut self, items: &[syn::Item]) {
        for item in items {
            match item {
                syn::Item::Mod(inner) if is_test(&inner.attrs) => {}
                syn::Item::Mod(inner) => {
                    self.add(inner.content.as_ref().map_or(&[], |(_, items)| items));
                }
                syn::Item::Use(import) if !is_test(&import.attrs) => self.add_use(import),
                other => self.add_paths(other.to_token_stream()),
            }
        }
    }

    /// A `pub use` only forwards: it is followed by those who use its name, and is no import itself.
    fn add_use(&mut self, import: &syn::ItemUse) {
        let mut leaves = Vec::new();
        expand(&import.tree, &mut Vec::new(), &mut leaves);
        let is_private = matches!(import.vis, syn::Visibility::Inherited);
        for (name, path) in leaves {
            if is_private {
                self.paths.insert(path.clone());
            }
            self.names.insert(name, path);
        }
    }

    /// Every `a::b::c` among the tokens, inside groups and macros too.
    fn add_paths(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_path(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end_path(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_paths(group.stream());
                    }
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}

/// The names that a `use` tree brings into scope, with their paths.
fn expand(tree: &syn::UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<(String, Vec<String>)>) {
    match tree {
        syn::UseTree::Path(part) => {
            prefix.push(part.ident.to_string());
            expand(&part.tree, prefix, leaves);
            prefix.pop();
        }
        syn::UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|item| expand(item, prefix, leaves)),
        syn::UseTree::Glob(_) => leaves.push((format!("{}::*", prefix.join("::")), prefix.clone())),
        syn::UseTree::Name(leaf) => {
            leaves.push(leaf_of(&leaf.ident, None, prefix));
        }
        syn::UseTree::Rename(leaf) => {
            leaves.push(leaf_of(&leaf.ident, Some(&leaf.rename), prefix));
        }
    }
}

fn leaf_of(
    ident: &syn::Ident,
    renamed: Option<&syn::Ident>,
    prefix: &[String],
) -> (String, Vec<String>) {
    let mut path = prefix.to_vec();
    if ident != "self" {
        path.push(ident.to_string());
    }
    let name = renamed.map(ToString::to_string);
    (
        name.or_else(|| path.last().cloned()).unwrap_or_default(),
        path,
    )
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute
            .to_token_stream()
            .to_string()
            .contains("cfg (test)")
    })
}

fn module_of(path: &Path) -> Module {
    let mut module: Module = path
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod")
        || matches!(&module[..], [only] if only == "lib" || only == "main")
    {
        module.pop();
    }
    module
}

fn joined(module: &[String], child: &str) -> Module {
    module.iter().cloned().chain([child.to_owned()]).collect()
}

fn name(module: &Module) -> String {
    if module.is_empty() {
        "the root".to_owned()
    } else {
        module.join("::")
    }
}
