//! The Hub's endpoint and the user's token for it, where `huggingface_hub` looks for them.

use std::path::PathBuf;

use reqwest::Url;

use crate::access::settings::Settings;

/// The Hub's own address.
const ENDPOINT: &str = "https://huggingface.co";

/// Returns the address of the Hub: `HF_ENDPOINT`, of a Secret or of the environment, otherwise `https://huggingface.co`.
///
/// # Errors
/// Fails if `HF_ENDPOINT` is not the URL of a web server.
pub(super) fn endpoint(settings: &dyn Settings) -> Result<Url, &'static str> {
    let text = settings.secret("HF_ENDPOINT").or_else(|| settings.variable("HF_ENDPOINT"));
    let text = text.unwrap_or_else(|| ENDPOINT.to_owned());
    let url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or("HF_ENDPOINT is not a URL such as https://huggingface.co")
}

/// Returns the user's token; `None` if there is none. A Secret precedes the environment, and the environment the file
/// that `hf auth login` writes.
///
/// # Errors
/// Fails if the token contains a character that cannot be sent.
pub(super) fn token(settings: &dyn Settings) -> Result<Option<String>, &'static str> {
    let named = settings.secret("HF_TOKEN").or_else(|| settings.variable("HF_TOKEN"));
    let named = named.or_else(|| settings.variable("HUGGING_FACE_HUB_TOKEN"));
    let found = named.or_else(|| settings.file(&token_file(settings)?));
    let Some(token) = found.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    if token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Some(token));
    }
    Err("HF_TOKEN contains a character that no token of the Hub has")
}

/// Returns the path of the file with the token; `None` if the environment does not say where the user's files are.
fn token_file(settings: &dyn Settings) -> Option<PathBuf> {
    if let Some(path) = settings.variable("HF_TOKEN_PATH") {
        return Some(PathBuf::from(path));
    }
    if let Some(folder) = settings.variable("HF_HOME") {
        return Some(PathBuf::from(folder).join("token"));
    }
    let cache = settings.variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(settings.home()?.join(".cache")));
    Some(cache?.join("huggingface/token"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::settings::Fixed;

    fn of(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn the_first_token_counts() {
        let mut settings = Fixed::default();
        assert_eq!(token(&settings), Ok(None));
        settings.variables = vec![("HOME", of("/home/me"))];
        settings.files = vec![
            ("/home/me/.cache/huggingface/token", of("hf_login\n")),
            ("/cache/huggingface/token", of("hf_cache")),
            ("/hf/token", of("hf_home")),
            ("/token", of("hf_path")),
        ];
        assert_eq!(token(&settings), Ok(Some(of("hf_login"))));
        for (name, value, expected) in [
            ("XDG_CACHE_HOME", "/cache", "hf_cache"),
            ("HF_HOME", "/hf", "hf_home"),
            ("HF_TOKEN_PATH", "/token", "hf_path"),
            ("HUGGING_FACE_HUB_TOKEN", "hf_old", "hf_old"),
            ("HF_TOKEN", "hf_variable", "hf_variable"),
        ] {
            settings.variables.push((name, of(value)));
            assert_eq!(token(&settings), Ok(Some(of(expected))), "{name}");
        }
        settings.secrets = vec![("HF_TOKEN", of("hf_secret\n"))];
        assert_eq!(token(&settings), Ok(Some(of("hf_secret"))));
        settings.secrets = vec![("HF_TOKEN", of("hf_a\nb"))];
        let error = token(&settings).unwrap_err();
        assert_eq!(error, "HF_TOKEN contains a character that no token of the Hub has");
    }

    #[test]
    fn the_endpoint_is_a_url() {
        let mut settings = Fixed::default();
        assert_eq!(endpoint(&settings).unwrap().as_str(), "https://huggingface.co/");
        settings.variables = vec![("HF_ENDPOINT", of("http://mirror:8080/hub/"))];
        assert_eq!(endpoint(&settings).unwrap().as_str(), "http://mirror:8080/hub/");
        for wrong in ["mirror", "file:///etc", "hf://x"] {
            settings.variables = vec![("HF_ENDPOINT", of(wrong))];
            assert!(endpoint(&settings).is_err(), "{wrong}");
        }
    }
}
