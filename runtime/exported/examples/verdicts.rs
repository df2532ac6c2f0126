//! Prints the verdict of each program in a folder, one per line: `cargo run -p weir-exported --example verdicts FOLDER`.

#![expect(clippy::print_stdout, reason = "the verdicts are the program's output")]

use std::path::{Path, PathBuf};

use weir_exported::{Archive, Processor, Verdict};

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pt2"));
    files.sort();
    for path in files {
        println!("{}\t{}", path.file_stem().unwrap_or_default().to_string_lossy(), verdict(&path));
    }
}

fn verdict(path: &Path) -> String {
    let program = match Archive::open(path).and_then(|mut archive| archive.program()) {
        Ok(program) => program,
        Err(error) => return format!("refused\t{error}"),
    };
    if let Err(error) = program.plan(Processor::Cpu) {
        return format!("refused\t{error}");
    }
    match program.batch().map(|batch| program.verdict(&batch)) {
        None => "no batch".to_owned(),
        Some(Verdict::Proven) => "proven".to_owned(),
        Some(Verdict::Coupled(what)) => format!("coupled\t{what}"),
        Some(Verdict::Unknown(what)) => format!("unknown\t{what}"),
    }
}
