//! Finds functions of more lines than one screen has. Clippy's rule counts neither comments, blank lines nor
//! signatures.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Most lines of a function, from its signature to its closing brace.
const MOST: usize = 60;

/// Finds the functions of more than 60 lines; each as `(line, name, lines)`, lines counted from 1.
#[must_use]
pub fn long_functions(file: &syn::File) -> Vec<(usize, String, usize)> {
    let mut functions = Functions::default();
    functions.visit_file(file);
    functions.0
}

#[derive(Default)]
struct Functions(Vec<(usize, String, usize)>);

impl Functions {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let lines = block.span().end().line + 1 - first;
        if lines > MOST {
            self.0.push((first, signature.ident.to_string(), lines));
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_signatures_count() {
        let of =
            |comments: usize| format!("struct S;\nimpl S {{\nfn f(\n) {{\n{}}}\n}}\n", "// Text.\n".repeat(comments));
        let found = |comments| long_functions(&syn::parse_str(&of(comments)).unwrap());
        assert_eq!(found(57), []);
        assert_eq!(found(58), [(3, "f".to_owned(), 61)]);
    }
}
