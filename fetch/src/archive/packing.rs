//! Packing of the files of a source.

/// Packing of a file, as given by the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// An archive named `.zip`.
    Zip,
    /// An archive named `.tar`.
    Tar,
    /// An archive named `.tar.gz` or `.tgz`.
    TarGz,
    /// A layer of an image. The layers are unpacked together, in their order.
    Layer(Compression),
    /// Any other file, which is the model itself.
    None,
}

/// Compression of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// A tar archive as it is.
    None,
    /// A tar archive compressed by gzip.
    Gzip,
}

impl Packing {
    /// Returns the packing of a file with this name.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        if name.ends_with(".zip") {
            Self::Zip
        } else if name.ends_with(".tar") {
            Self::Tar
        } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
            Self::TarGz
        } else {
            Self::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_follows_the_name() {
        assert_eq!(Packing::of("model.ZIP"), Packing::Zip);
        assert_eq!(Packing::of("model.tar.gz"), Packing::TarGz);
        assert_eq!(Packing::of("model.tgz"), Packing::TarGz);
        assert_eq!(Packing::of("model.tar"), Packing::Tar);
        assert_eq!(Packing::of("model.pt"), Packing::None);
    }
}
