//! Finds the length of an engine's queue in its metrics, in Prometheus' text format, as they arrive.

/// Names of the gauges with the requests that wait inside a server: those of vLLM, SGLang, Text Generation Inference,
/// llama.cpp, LMDeploy, Ray Serve and Triton. vLLM inside Ray has no colon in its names.
const NAMES: [&[u8]; 8] = [
    b"vllm:num_requests_waiting",
    b"ray_vllm_num_requests_waiting",
    b"sglang:num_queue_reqs",
    b"tgi_queue_size",
    b"llamacpp:requests_deferred",
    b"lmdeploy:num_requests_waiting",
    b"ray_serve_deployment_queued_queries",
    b"nv_inference_pending_request_count",
];

/// Longest line that is read, in bytes. Longer lines are skipped; those of the gauges have few labels.
const MAX_LINE: usize = 4096;

/// Upper limit on the reported number of waiting requests. No server has sockets for more.
const MAX_WAITING: f64 = 65_536.0;

/// A scan of one page of metrics. It keeps at most one line.
#[derive(Debug, Default)]
pub(super) struct Scan {
    line: Vec<u8>,
    /// Set while the rest of a line that is too long is skipped.
    is_skipping: bool,
    /// Sum of the gauges so far; `None` before the first one.
    waiting: Option<f64>,
}

impl Scan {
    /// Scans the next piece of the page.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            self.extend(part);
            if lines.peek().is_some() {
                self.end_line();
            }
        }
    }

    /// Returns the number of waiting requests; `None` if the page has none of the gauges.
    pub(super) fn finish(mut self) -> Option<u32> {
        self.end_line();
        self.waiting.map(|waiting| waiting.min(MAX_WAITING).round() as u32)
    }

    fn extend(&mut self, part: &[u8]) {
        if self.is_skipping || self.line.len() + part.len() > MAX_LINE {
            self.is_skipping = true;
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) {
        if !self.is_skipping
            && let Some(value) = value_of(&self.line)
        {
            // A server with several engines has one series for each.
            self.waiting = Some(self.waiting.unwrap_or(0.0) + value);
        }
        self.line.clear();
        self.is_skipping = false;
    }
}

/// Returns the value of a line with one of the gauges; `None` for other lines and for values that are not a count.
fn value_of(line: &[u8]) -> Option<f64> {
    let rest = NAMES.iter().find_map(|name| line.strip_prefix(*name))?;
    let rest = match rest.first()? {
        b'{' => behind_labels(&rest[1..])?,
        b' ' | b'\t' => rest,
        _ => return None,
    };
    // A time may follow the value.
    let value = std::str::from_utf8(rest).ok()?.split_ascii_whitespace().next()?;
    value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
}

/// Returns what follows the closing brace of labels, whose values may have braces and escaped quotes.
fn behind_labels(labels: &[u8]) -> Option<&[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, byte) in labels.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return labels.get(index + 1..),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scanned(page: &str) -> Option<u32> {
        let mut scan = Scan::default();
        scan.push(page.as_bytes());
        scan.finish()
    }

    #[test]
    fn the_gauges_of_known_servers_are_found() {
        let vllm = "# HELP vllm:num_requests_waiting Number of requests waiting to be processed.\n\
                    # TYPE vllm:num_requests_waiting gauge\n\
                    vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 8.0\n\
                    vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 3.0\n\
                    vllm:num_requests_waiting{engine=\"1\",model_name=\"a}\\\"} 9\"} 4.0\n";
        assert_eq!(scanned(vllm), Some(7));
        assert_eq!(scanned("sglang:num_queue_reqs{model_name=\"m\"} 12"), Some(12));
        assert_eq!(scanned("tgi_queue_size 5\r\n"), Some(5));
        assert_eq!(scanned("llamacpp:requests_processing 1\nllamacpp:requests_deferred 6\n"), Some(6));
        assert_eq!(scanned("lmdeploy:num_requests_waiting{engine=\"0\"} 1.0\n"), Some(1));
        let ray = "ray_serve_deployment_queued_queries{application=\"app\",handle=\"a\"} 2.0\n\
                   ray_serve_deployment_queued_queries{application=\"app\",handle=\"b\"} 3.0\n";
        assert_eq!(scanned(ray), Some(5));
        assert_eq!(scanned("nv_inference_pending_request_count{model=\"m\",version=\"1\"} 2 1700000000000\n"), Some(2));
        assert_eq!(scanned("tgi_queue_size 0\n"), Some(0));
    }

    #[test]
    fn other_lines_and_other_values_are_ignored() {
        for page in [
            "",
            "{}",
            "<html>tgi_queue_size 5</html>",
            "tgi_queue_size",
            "tgi_queue_size ",
            "tgi_queue_size_total 5",
            "tgi_queue_size -1",
            "tgi_queue_size NaN",
            "tgi_queue_size +Inf",
            "tgi_queue_size{a=\"} 5",
            "tgi_queue_size{a=\"b\"",
            " tgi_queue_size 5",
            "vllm:num_requests_waiting_by_reason{reason=\"x\"} 5",
        ] {
            assert_eq!(scanned(page), None, "{page}");
        }
        assert_eq!(scanned("tgi_queue_size 1e300\n"), Some(65_536));
    }

    #[test]
    fn a_line_without_end_takes_little_memory() {
        let mut scan = Scan::default();
        for _ in 0..1000 {
            scan.push(&[b'x'; 1000]);
        }
        assert!(scan.line.capacity() <= 2 * MAX_LINE);
        scan.push(b"\ntgi_queue_size 2\n");
        assert_eq!(scan.finish(), Some(2));
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_pieces(
            lines in proptest::collection::vec("(tgi_queue_size|sglang:num_queue_reqs|x)(\\{a=\"[\\\\\"}x]{0,3}\\})? [0-9.e+-]{0,4}", 0..8),
            cuts in proptest::collection::vec(1_usize..20, 1..9),
        ) {
            let page = lines.join("\n");
            let (mut scan, mut rest, mut cuts) = (Scan::default(), page.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                scan.push(piece);
                rest = after;
            }
            prop_assert_eq!(scan.finish(), scanned(&page));
        }

        #[test]
        fn any_bytes_are_scanned_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut scan = Scan::default();
            scan.push(&bytes);
            let _ = scan.finish();
        }
    }
}
