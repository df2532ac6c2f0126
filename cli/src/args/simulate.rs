//! The flags of `weir simulate`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use weir_cluster::Economy;
use weir_controller::parse_duration;
use weir_simulation::{Contender, Lengths, Shape, TimeUnit, Wave};

use super::price;

const EXAMPLES: &str = "\
Examples:
  Cost and waiting times of a day of your requests, for three targets:
    weir simulate access.log --batch-time 400ms+100ms/request --max-batch 8 --cold-start 60s \\
      --queue-delay 1s,2s,5s --gpu-price 2.50

  Compare with other autoscalers, and draw a picture:
    weir simulate requests.csv --batch-time 400ms+100ms/request --cold-start 60s \\
      --policy weir,kpa-tuned,keda,fixed=5 --svg day.svg

  An engine of 64 answers at once: 336 tokens on average, log-normal:
    weir simulate --wave sine:1..20:30m --for 2h --token-time 8ms+100us/request --tokens 336 \\
      --lengths lognormal:1 --concurrency 64 --cold-start 90s

  A declared service with measured batch times, under traffic that comes and goes:
    weir simulate -f service.yaml --url http://localhost:8080/v2/models/digits \\
      --wave square:0..40:10m

  Bad days: few GPUs, slow nodes that linger, failing starts, reclaimed spot GPUs:
    weir simulate access.log --service-time 2s --concurrency 4 --gpus 6 --node-start 3m \\
      --node-linger 10m --failing-starts 5% --spot-gpus 2 --spot-price 0.80 --gpu-price 2.50

A log is CSV with a column `time` or `timestamp` (or --time-column), an access log, or JSON lines
with such a key; `-` is standard input. Times are RFC 3339 or seconds, milliseconds, microseconds
or nanoseconds since 1970, or in the --time-unit. Only the times are read. If a log has times in
whole seconds, its requests are spread at random over each second.

Policies: weir; kpa (Knative), keda (its HTTP add-on) and ray (Ray Serve), targeting 0.7 of a
replica's concurrency, or with -tuned the highest target that its service times allow; hpa on the
ratio of queue to compute time (Triton's guides); aibrix; wva (llm-d), wva-up0; dynamo, dynamo-load;
fixed=5, or fixed for the peak.

Exit codes: 0 success, 1 failure, 2 wrong usage, log or YAML.";

/// Estimates the GPUs that requests would have needed, and their time in the queue.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("requests").args(["log", "wave"]).required(true)))]
#[command(group(clap::ArgGroup::new("curve").args(["batch_time", "service_time", "token_time", "url"]).required(true)))]
pub(crate) struct SimulateArgs {
    /// Log of requests: CSV, an access log or JSON lines; - is standard input.
    pub(crate) log: Option<PathBuf>,

    /// Random requests instead of a log, at a rate that follows a curve: square:LOW..HIGH:PERIOD, the same with sine,
    /// ramp or step, or steady:RATE; rates in requests per second.
    #[arg(long, value_parser = wave, help_heading = "Requests")]
    pub(crate) wave: Option<Wave>,

    /// Length of the wave.
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = duration, conflicts_with = "log", help_heading = "Requests")]
    pub(crate) length: Duration,

    /// Column or key of the log that holds the time, by name, or a column by its number [default: time, timestamp or
    /// another usual name].
    #[arg(long, value_name = "NAME", conflicts_with = "wave", help_heading = "Requests")]
    pub(crate) time_column: Option<String>,

    /// Unit of numeric times [default: guessed from each number so that it lies after 1973; seconds if it is too small
    /// for that].
    #[arg(long, value_name = "UNIT", conflicts_with = "wave", help_heading = "Requests")]
    pub(crate) time_unit: Option<TimeUnitArg>,

    /// Most log lines without a readable time that may be skipped; more are an error.
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "wave", help_heading = "Requests")]
    pub(crate) max_bad_lines: usize,

    /// Time of a batch, and the time that each request adds to it, such as 400ms+100ms/request.
    #[arg(long, value_name = "TIME", help_heading = "Replicas")]
    pub(crate) batch_time: Option<BatchTime>,

    /// Most requests in a batch [default: the service's containerConcurrency, or 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "service_time", help_heading = "Replicas")]
    pub(crate) max_batch: Option<u32>,

    /// Time of a request, for a replica that does not batch.
    #[arg(long, value_name = "DURATION", value_parser = above_zero, help_heading = "Replicas")]
    pub(crate) service_time: Option<Duration>,

    /// Time of a token of an engine that batches continuously, and the time that each request in flight adds to it, such as
    /// 8ms+100us/request.
    #[arg(long, value_name = "TIME", value_parser = token_time, help_heading = "Replicas")]
    pub(crate) token_time: Option<BatchTime>,

    /// Mean number of tokens of an answer [default: 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = ["batch_time", "service_time", "url"], help_heading = "Replicas")]
    pub(crate) tokens: Option<u32>,

    /// Distribution of the lengths of requests: equal, lognormal:SIGMA (1 if left out; chat answers), or
    /// bimodal:10%x50 (every tenth takes fifty times as long as the others). The mean is that of --service-time or --tokens.
    #[arg(long, value_name = "LENGTHS", default_value = "equal", value_parser = lengths, conflicts_with_all = ["batch_time", "url"], help_heading = "Replicas")]
    pub(crate) lengths: Lengths,

    /// Concurrent requests of a replica that does not batch, or batches continuously [default: the service's
    /// containerConcurrency, or 1; with --token-time 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with_all = ["batch_time", "url"], help_heading = "Replicas")]
    pub(crate) concurrency: Option<u32>,

    /// URL of a running model, http://HOST:PORT/v2/models/NAME, from whose statistics the batch times are measured.
    #[arg(long, help_heading = "Replicas")]
    pub(crate) url: Option<String>,

    /// PEM file with the CA or server certificate to trust for an https:// --url.
    #[arg(long, value_name = "FILE", requires = "url", help_heading = "Replicas")]
    pub(crate) cacert: Option<PathBuf>,

    /// YAML file or folder with an InferenceService, whose bounds, target and annotations are used; repeatable.
    #[arg(short = 'f', long = "file", value_name = "PATH", help_heading = "Policy")]
    pub(crate) files: Vec<PathBuf>,

    /// Name of the service, needed if the files hold several.
    #[arg(long, value_name = "NAME", requires = "files", help_heading = "Policy")]
    pub(crate) service: Option<String>,

    /// Target for the time in the queue; several are compared [default: the service's target, or 1s].
    #[arg(long, value_name = "DURATION", value_delimiter = ',', value_parser = positive, help_heading = "Policy")]
    pub(crate) queue_delay: Vec<Duration>,

    /// Percent of the requests that should meet the target [default: the service's percentile, or 99].
    #[arg(long, value_name = "PERCENT", value_parser = percentile, help_heading = "Policy")]
    pub(crate) percentile: Option<f64>,

    /// Fewest replicas, for every policy [default: the service's minReplicas, or 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000), help_heading = "Policy")]
    pub(crate) min: Option<u32>,

    /// Most replicas, for every policy [default: the service's maxReplicas, or 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Policy")]
    pub(crate) max: Option<u32>,

    /// Idle time to spend on avoiding cold starts [default: the service's weir.dev/economy, or balanced].
    #[arg(long, help_heading = "Policy")]
    pub(crate) economy: Option<EconomyArg>,

    /// Time that a replica takes to start on a running node [default: with --url the starts that `weir up` on this
    /// machine measured, else 60s].
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Replicas")]
    pub(crate) cold_start: Option<Duration>,

    /// State directory of the `weir up` that serves --url [default: ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR", help_heading = "Replicas")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Scaling policies; several are compared.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "weir", help_heading = "Policy")]
    pub(crate) policy: Vec<Contender>,

    /// Percent of the starts that fail at their end and are retried.
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent, help_heading = "Machines")]
    pub(crate) failing_starts: f64,

    /// Percent of the starts that never finish.
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent, help_heading = "Machines")]
    pub(crate) endless_starts: f64,

    /// Share and slowness of slow replicas: with 10%x3 every tenth replica takes three times as long.
    #[arg(long, value_name = "SLOW", help_heading = "Machines")]
    pub(crate) slow_replicas: Option<SlowReplicas>,

    /// Most GPUs; each replica takes one [default: no limit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Machines")]
    pub(crate) gpus: Option<u32>,

    /// Time until a new node is up, before a replica can start on it.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration, help_heading = "Machines")]
    pub(crate) node_start: Duration,

    /// Time that a node stays up, and is paid for, after its replica ends.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration, help_heading = "Machines")]
    pub(crate) node_linger: Duration,

    /// Price of one GPU per hour, in any currency [default: costs are not shown].
    #[arg(long, value_name = "PRICE", value_parser = price, help_heading = "Prices and spot GPUs")]
    pub(crate) gpu_price: Option<f64>,

    /// Number of GPUs that are spot GPUs, which are used first and may be reclaimed at any time.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Prices and spot GPUs")]
    pub(crate) spot_gpus: u32,

    /// Price of one spot GPU per hour [default: --gpu-price].
    #[arg(long, value_name = "PRICE", value_parser = price, requires = "gpu_price", help_heading = "Prices and spot GPUs")]
    pub(crate) spot_price: Option<f64>,

    /// Average time until a spot GPU is reclaimed.
    #[arg(long, value_name = "DURATION", default_value = "6h", value_parser = positive, help_heading = "Prices and spot GPUs")]
    pub(crate) spot_life: Duration,

    /// Seed of the random numbers; the same seed gives the same outcome.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print the outcome as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// File for a picture in SVG: arrivals, replicas wanted and ready, longest delay against the target, late requests.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// Values of `--economy`, the same as those of the annotation `weir.dev/economy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EconomyArg {
    Economy,
    Balanced,
    Latency,
}

impl From<EconomyArg> for Economy {
    fn from(economy: EconomyArg) -> Self {
        match economy {
            EconomyArg::Economy => Self::Economy,
            EconomyArg::Balanced => Self::Balanced,
            EconomyArg::Latency => Self::Latency,
        }
    }
}

/// Values of `--time-unit`: units of numeric times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeUnitArg {
    S,
    Ms,
    Us,
    Ns,
}

impl From<TimeUnitArg> for TimeUnit {
    fn from(unit: TimeUnitArg) -> Self {
        match unit {
            TimeUnitArg::S => Self::Seconds,
            TimeUnitArg::Ms => Self::Milliseconds,
            TimeUnitArg::Us => Self::Microseconds,
            TimeUnitArg::Ns => Self::Nanoseconds,
        }
    }
}

/// Time of a batch: a fixed part, and a part for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchTime {
    pub(crate) fixed: Duration,
    pub(crate) each: Duration,
}

impl FromStr for BatchTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a batch time: write 400ms+100ms/request");
        let part = |text: &str| parse_duration(text.trim()).ok_or_else(wrong);
        let each = |text: &str| part(text.trim().strip_suffix("/request").ok_or_else(wrong)?);
        let (fixed, each) = match text.split_once('+') {
            Some((fixed, rest)) => (part(fixed)?, each(rest)?),
            None if text.ends_with("/request") => (Duration::ZERO, each(text)?),
            None => (part(text)?, Duration::ZERO),
        };
        if fixed.is_zero() && each.is_zero() {
            return Err(format!("{text} {NO_TIME}"));
        }
        Ok(Self { fixed, each })
    }
}

fn token_time(text: &str) -> Result<BatchTime, String> {
    text.parse().map_err(|error: String| error.replace("a batch time: write 400ms+100ms", "a time: write 8ms+100us"))
}

/// Largest standard deviation of the logarithms of lengths: with 4, one request in a thousand is 76 times the mean, and
/// the mean of any simulation is far from that of the distribution.
const MAX_SIGMA: f64 = 4.0;

fn lengths(text: &str) -> Result<Lengths, String> {
    let wrong = || format!("{text:?} are no lengths: write equal, lognormal:1 or bimodal:10%x50");
    match text.split_once(':').unwrap_or((text, "")) {
        ("equal", "") => Ok(Lengths::Equal),
        ("lognormal", "") => Ok(Lengths::LogNormal { sigma: 1.0 }),
        ("lognormal", sigma) => {
            let sigma = sigma.parse::<f64>().ok().filter(|sigma| (0.0..=MAX_SIGMA).contains(sigma));
            sigma.map(|sigma| Lengths::LogNormal { sigma }).ok_or_else(wrong)
        }
        ("bimodal", long) => {
            let SlowReplicas { share, factor } = long.parse().map_err(|_| wrong())?;
            Ok(Lengths::Bimodal { share, factor })
        }
        _ => Err(wrong()),
    }
}

/// Share of the replicas that are slow, and the factor by which their service times are longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlowReplicas {
    pub(crate) share: f64,
    pub(crate) factor: f64,
}

impl FromStr for SlowReplicas {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a share with a factor: write 10%x3");
        let (share, factor) = text.split_once('x').ok_or_else(wrong)?;
        let factor = factor.parse().map_err(|_| wrong())?;
        let fits = (1.0..=1000.0).contains(&factor);
        fits.then_some(()).ok_or_else(wrong)?;
        Ok(Self { share: percent(share)?, factor })
    }
}

/// Highest rate of a wave, in requests per second: at more, the arrivals would soon not fit into memory.
const FASTEST: f64 = 100_000.0;

fn wave(text: &str) -> Result<Wave, String> {
    let wrong = || {
        format!(
            "{text:?} is not a wave: write square:0..40:10m, or sine, ramp or step instead of square, or steady:25; rates are requests per second, up to {FASTEST}"
        )
    };
    let rate = |text: &str| {
        let rate = text.parse::<f64>().ok();
        rate.filter(|rate| (0.0..=FASTEST).contains(rate)).ok_or_else(wrong)
    };
    let (shape, rest) = text.split_once(':').ok_or_else(wrong)?;
    if shape == "steady" {
        let rate = rate(rest)?;
        return Ok(Wave { shape: Shape::Square, low: rate, high: rate, period: Duration::from_secs(3600) });
    }
    let shape = match shape {
        "square" => Shape::Square,
        "sine" => Shape::Sine,
        "ramp" => Shape::Ramp,
        "step" => Shape::Step,
        _ => return Err(wrong()),
    };
    let (rates, period) = rest.split_once(':').ok_or_else(wrong)?;
    let (low, high) = rates.split_once("..").ok_or_else(wrong)?;
    Ok(Wave { shape, low: rate(low)?, high: rate(high)?, period: positive(period).map_err(|_| wrong())? })
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("{text:?} is not a duration: write 500ms, 60s or 1m30s"))
}

/// Error text for a service time of zero.
const NO_TIME: &str =
    "is too short, as a replica would serve any number of requests: write the time of one, such as 500ms";

fn above_zero(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() {
        return Err(format!("{text} {NO_TIME}"));
    }
    Ok(time)
}

fn positive(text: &str) -> Result<Duration, String> {
    let long = duration(text)?;
    // The bins of the optimal plan are as long as this delay, so it must not be zero.
    if long < Duration::from_millis(1) {
        return Err(format!("{text} is too short: write at least 1ms"));
    }
    Ok(long)
}

/// Parses a share between 0 and 1, written in percent with or without the sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    let number = number.ok_or_else(|| format!("{text:?} is not a share: write 5%"))?;
    Ok(number / 100.0)
}

fn percentile(text: &str) -> Result<f64, String> {
    let share = percent(text)?;
    let fits = (0.5..1.0).contains(&share);
    fits.then_some(share).ok_or_else(|| format!("{text:?} is not between 50 and 99.99: write 99"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn parse(words: &str) -> Result<SimulateArgs, String> {
        let words = format!("weir simulate {words}");
        match Args::try_parse_from(words.split(' ')) {
            Ok(args) => match args.command {
                Command::Simulate(args) => Ok(*args),
                other => panic!("{other:?}"),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn times_and_waves_are_parsed() {
        let args = parse("--wave square:0..40:10m --batch-time 400ms+100ms/request --policy weir,fixed=5");
        let args = args.unwrap();
        let wave = args.wave.unwrap();
        assert_eq!((wave.shape, wave.low, wave.high), (Shape::Square, 0.0, 40.0));
        assert_eq!(wave.period, Duration::from_secs(600));
        let time = args.batch_time.unwrap();
        assert_eq!((time.fixed.as_millis(), time.each.as_millis()), (400, 100));
        assert_eq!(args.policy, [Contender::Weir, Contender::Fixed(5)]);
        let slow: SlowReplicas = "10%x3".parse().unwrap();
        assert_eq!((slow.share, slow.factor), (0.1, 3.0));
        assert_eq!(lengths("bimodal:10%x50"), Ok(Lengths::Bimodal { share: 0.1, factor: 50.0 }));
        let args = parse("a.csv --token-time 8ms+100us/request --tokens 336 --lengths lognormal").unwrap();
        assert_eq!((args.lengths, args.tokens), (Lengths::LogNormal { sigma: 1.0 }, Some(336)));
        assert_eq!("5s".parse::<BatchTime>().unwrap().each, Duration::ZERO);
    }

    #[test]
    fn errors_say_what_to_write() {
        let curve = "--service-time 1s";
        for (words, hint) in [
            ("--wave square:0..40 --service-time 1s", "write square:0..40:10m"),
            ("--wave steady:-1 --service-time 1s", "write square:0..40:10m"),
            ("a.csv --batch-time 400ms+100ms", "write 400ms+100ms/request"),
            ("a.csv --service-time 1", "write 500ms, 60s"),
            ("a.csv --service-time 0s", "write the time of one"),
            ("a.csv --batch-time 0s+0ms/request", "write the time of one"),
            ("a.csv --service-time 1s --policy kap", "is not a policy: write weir"),
            ("a.csv --service-time 1s --failing-starts 200", "write 5%"),
            ("a.csv --service-time 1s --percentile 100", "write 99"),
            ("a.csv --service-time 1s --queue-delay 0s", "at least 1ms"),
            ("a.csv --service-time 1s --slow-replicas 10%", "write 10%x3"),
            ("a.csv", "--batch-time"),
            (curve, "--wave"),
            ("a.csv --wave steady:1 --service-time 1s", "cannot be used with"),
            ("a.csv --service-time 1s --batch-time 1s", "cannot be used with"),
            ("a.csv --service-time 1s --spot-price 1", "--gpu-price"),
            ("a.csv --token-time 8ms+1ms", "write 8ms+100us/request"),
            ("a.csv --token-time 0s", "write the time of one"),
            ("a.csv --service-time 1s --tokens 5", "cannot be used with"),
            ("a.csv --service-time 1s --lengths pareto", "write equal, lognormal:1 or bimodal:10%x50"),
            ("a.csv --service-time 1s --lengths lognormal:9", "write equal, lognormal:1"),
            ("a.csv --batch-time 1s --lengths lognormal", "cannot be used with"),
            ("a.csv --batch-time 1s --concurrency 4", "cannot be used with"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(hint), "{words}: {error}");
        }
    }
}
