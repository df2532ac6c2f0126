use super::*;

fn read(text: &str) -> Result<RequestLog, LogError> {
    read_by(text, None)
}

fn read_by(text: &str, column: Option<&str>) -> Result<RequestLog, LogError> {
    let options = LogOptions { time_column: column.map(ToOwned::to_owned), time_unit: None, most_bad: 1 };
    RequestLog::read(text.as_bytes(), &options)
}

fn seconds(text: &str) -> Vec<f64> {
    let log = read(text).unwrap();
    log.arrivals.iter().map(Duration::as_secs_f64).collect()
}

#[test]
fn every_common_kind_of_log_is_read() {
    let rows = [
        "time,path\n1.5,/a\n0.5,/b\n",
        "path;Timestamp\n/a;2026-01-01T00:00:00Z\n\"x;y\";2026-01-01 01:00:01+01:00\n",
        "1767225600000\n1767225601000\n",
        "\u{feff}ts\tstatus\r\n1767225600\t200\r\n1767225601\t200\r\n",
        "{\"msg\":\"x\",\"ts\":1767225600.0}\n\n{\"ts\":\"2026-01-01T00:00:01Z\"}\n",
        concat!(
            "10.0.0.1 - - [10/Oct/2025:13:55:36 -0700] \"GET / HTTP/1.1\" 200 23\n",
            "10.0.0.1 - bob [10/Oct/2025:20:55:37 +0000] \"GET /[x] HTTP/1.1\" 200 23 \"-\" \"curl\"\n",
        ),
    ];
    for text in rows {
        assert_eq!(seconds(text), [0.0, 1.0], "{text}");
    }
}

#[test]
fn a_column_is_chosen_by_name_number_or_path() {
    let text = "id,begun,ended\n7,10,20\n8,11,22\n";
    let of = |column| read_by(text, Some(column)).unwrap().arrivals[1].as_secs();
    assert_eq!((of("ended"), of("begun"), of("3")), (2, 1, 2));
    let json = "{\"request\":{\"at\":1}}\n{\"request\":{\"at\":4}}\n";
    let log = read_by(json, Some("request.at")).unwrap();
    assert_eq!(log.arrivals[1].as_secs(), 3);
    let error = read_by(text, Some("end")).unwrap_err().to_string();
    assert!(error.contains("no column is called end"), "{error}");
}

#[test]
fn few_bad_lines_are_skipped_and_reported_by_number() {
    let log = read("time\n1\nx\n2\n").unwrap();
    assert_eq!((log.arrivals.len(), log.bad[0].line), (2, 3));
    assert_eq!(log.bad[0].problem, "\"x\" is not a time");
    let error = read("time\n1\nx\n\n-\n").unwrap_err().to_string();
    assert!(error.starts_with("more than 1 lines"), "{error}");
    assert!(error.contains("the first is line 3"), "{error}");
}

#[test]
fn a_file_that_is_not_a_log_is_refused_with_advice() {
    let message = |text: &str| read(text).unwrap_err().to_string();
    assert!(message("").contains("no request"));
    assert!(message("time\n").contains("no request"));
    assert!(message("\n\n").contains("no request"));
    let columns = message("name,age\nx,1\n");
    assert!(columns.contains("line 1"), "{columns}");
    assert!(columns.contains("the columns are name, age: name the one with --time-column"));
    assert!(message("time\n0\n1767225600\n").contains("20454 days"));
    let long = format!("time\n{}", "1".repeat(2 << 20));
    assert!(message(&long).starts_with("line 2 is longer"));
    let refused = |bytes: &[u8]| {
        let options = LogOptions { time_column: None, time_unit: None, most_bad: 0 };
        RequestLog::read(bytes, &options).unwrap_err().to_string()
    };
    assert!(refused(&[0x1f, 0x8b, 8, 0]).contains("zcat"));
    assert!(refused(b"\x28\xb5\x2f\xfd\x01").contains("zstdcat"));
    assert!(refused(b"\xff\xfet\0i\0m\0e\0").contains("iconv -f UTF-16"));
    assert!(refused(b"PAR1\x15\x04").contains("not text"));
    assert!(message("[\n{\"time\":1}\n]\n").contains("jq -c"));
    assert!(message("{\n  \"time\": 1\n}\n").contains("jq -c ."));
    assert!(message("time,text\n1,\"x\n2,y\n").contains("line 2: a field begins"));
    // Numbers in sentences are not times.
    let sentence = message("INFO: 127.0.0.1:5 - \"GET / HTTP/1.1\" 200 OK\n");
    assert!(sentence.contains("no column is called time"), "{sentence}");
    let keys = message("{\"a\":1,\"took\":7}\n");
    assert!(keys.contains("the keys are a, took"), "{keys}");
    let date = message("time,x\n1/31/2026 0:00,1\n");
    assert!(date.contains("a time is written 2026-01-31T13:55:36Z"), "{date}");
}

#[test]
fn a_number_is_a_time_only_in_the_first_column() {
    let rows = [
        "[GIN] x | 200 | 1.2ms | 10.0.0.1\n",
        "10.0.0.1, -, 1/31/26, 13:55:36, W3SVC2, 4502, 163\n",
        "Time,0.1,0.5\n1/31/2026,7,8\n",
    ];
    for text in rows {
        let error = read(text).unwrap_err();
        assert!(matches!(error, LogError::NoTime { .. }), "{text}: {error}");
    }
    assert_eq!(seconds("0.5,200,7\n1.5,404,7\n"), [0.0, 1.0]);
}

#[test]
fn repeated_headers_of_concatenated_logs_are_not_bad_lines() {
    let day = "#Version: 1.0\n#Fields: date time\n2026-01-01 00:00:00 GET\n";
    let log = read(&day.repeat(3)).unwrap();
    assert_eq!((log.arrivals.len(), log.bad.len()), (3, 0));
    let log = read(&"time,x\n5,a\n".repeat(3)).unwrap();
    assert_eq!((log.arrivals.len(), log.bad.len()), (3, 0));
}

#[test]
fn evenly_spaced_samples_of_a_monitor_are_detected() {
    let log = |at: &dyn Fn(u32) -> f64| {
        let rows: Vec<_> = (0..20).map(|row| at(row).to_string()).collect();
        read(&format!("time\n{}\n", rows.join("\n"))).unwrap()
    };
    assert!(log(&|row| f64::from(row) * 15.0).is_sampled());
    assert!(!log(&|row| f64::from(row * row) * 15.0).is_sampled());
    assert!(!log(&|row| f64::from(row) * 0.1).is_sampled());
    assert!(!read("time\n0\n15\n30\n").unwrap().is_sampled());
}

#[test]
fn the_time_is_found_among_other_numbers_and_under_other_names() {
    let rows = [
        // Row numbers and durations are not times of requests.
        "1,2026-01-01T00:00:00Z,a\n2,2026-01-01T00:00:01Z,b\n",
        "time,timestamp\n0.25,1767225600\n7.5,1767225601\n",
        "{\"time\":0.3,\"at\":\"2026-01-01T00:00:00Z\"}\n{\"time\":9,\"at\":\"2026-01-01T00:00:01Z\"}\n",
        "id,begun_ms\n1,1767225600000\n2,1767225601000\n",
        "{\"startTime\":\"2026-01-01T00:00:00Z\"}\n{\"startTime\":\"2026-01-01T00:00:01Z\"}\n",
        "{\"req\":{\"receivedAt\":1767225600000}}\n{\"req\":{\"receivedAt\":1767225601000}}\n",
        "{\"log\":{\"end\":\"2026-01-01T00:00:09Z\",\"@timestamp\":\"2026-01-01T00:00:00Z\"}}\n{\"log\":{\"@timestamp\":\"2026-01-01T00:00:01Z\"}}\n",
        // A date and a time of day in two columns.
        "id,date,time\n1,2026-01-01,00:00:00\n2,2026-01-01,00:00:01\n",
        "#Version: 1.0\n#Fields: date time\n2026-01-01 00:00:00 GET\n2026-01-01 00:00:01 GET\n",
        // Words separated by blanks.
        "https 2026-01-01T00:00:00Z app/lb 0.1 \"GET /, x\"\nhttps 2026-01-01T00:00:01Z app/lb 0.1 \"GET\"\n",
        "2026-01-01T00:00:00Z stdout F GET\n2026-01-01T00:00:01Z stdout F GET\n",
        "2026/01/01 00:00:00 [error] 1#1: *1 failed, client: 1\n2026/01/01 00:00:01 [error] 1#1: *1 failed, client: 1\n",
        "ts=2026-01-01T00:00:00Z level=info\nts=2026-01-01T00:00:01Z level=info\n",
        "time=\"2026-01-01T00:00:00Z\" level=info\ntime=\"2026-01-01T00:00:01Z\" level=info\n",
        "Jan  1 00:00:00 host app[1]: GET\nJan  1 00:00:01 host app[1]: GET\n",
        "I0101 00:00:00.000000 1 http.cc:7] GET\nI0101 00:00:01.000000 1 http.cc:7] GET\n",
        "[GIN] 2026/01/01 - 00:00:00 | 200 | 1ms\n[GIN] 2026/01/01 - 00:00:01 | 200 | 1ms\n",
        // Decimal commas, other delimiters, quoted fields over several lines.
        "time;x\n1767225600,0;1\n1767225601,0;1\n",
        "time|x\n1|1\n2|1\n",
        "time,x\r1,1\r2,1\r",
        "time,text\n1,\"a\n7,b\"\n2,\"\"\"\"\n",
        // Brackets that hold no time.
        "[::1] - u[1] [01/Jan/2026:00:00:00 +0000] \"GET /\"\n[::1] - - [01/Jan/2026:00:00:01 +0000] \"GET /\"\n",
    ];
    for text in rows {
        assert_eq!(seconds(text), [0.0, 1.0], "{text}");
    }
}

#[test]
fn a_given_unit_applies_to_small_numbers() {
    let options = LogOptions { time_column: None, time_unit: Some(TimeUnit::Milliseconds), most_bad: 0 };
    let text = "{\"timestamp\":0}\n{\"timestamp\":1500}\n";
    let log = RequestLog::read(text.as_bytes(), &options).unwrap();
    assert_eq!(log.arrivals[1], Duration::from_millis(1500));
}

#[test]
fn the_suffix_of_a_name_sets_the_unit() {
    let columns = read_by("at_ms,x\n0,a\n1500,a\n", Some("at_ms")).unwrap();
    assert_eq!(columns.arrivals[1], Duration::from_millis(1500));
    let keys = read_by("{\"t_us\":0}\n{\"t_us\":1500}\n", Some("t_us")).unwrap();
    assert_eq!(keys.arrivals[1], Duration::from_micros(1500));
}

#[test]
fn no_bytes_make_it_panic() {
    for text in ["{", "{}", "[", "\"", ",", "time,\n", "\0\0\n", "-1e308\n1e308\n", "NaN\ninf\n"] {
        let _ = read(text);
    }
}
