//! Output of `weir simulate --json`.

use serde_json::{Value, json};

use super::scenario::Scenario;
use super::{Simulated, least};

/// Returns the results as JSON. Keys stay stable; new ones may be added.
pub(super) fn report(scenario: &Scenario, simulated: &[Simulated]) -> String {
    let least: Vec<_> = scenario
        .targets
        .iter()
        .map(|target| json!({"targetSeconds": target.as_secs_f64(), "gpuSeconds": least(scenario, *target)}))
        .collect();
    let report = json!({
        "requests": scenario.arrivals.len(),
        "seconds": scenario.until.as_secs_f64(),
        "percentile": scenario.scaling.quantile * 100.0,
        "replicaRequestsPerSecond": scenario.world.service.capacity(),
        "coldStartSeconds": scenario.world.starts.time.as_secs_f64(),
        "leastWithTheFutureKnown": least,
        "policies": simulated.iter().map(policy).collect::<Vec<_>>(),
    });
    format!("{report:#}")
}

fn policy(one: &Simulated) -> Value {
    let score = &one.score;
    json!({
        "policy": one.policy.to_string(),
        "targetSeconds": one.target.as_secs_f64(),
        "attainment": score.attainment,
        "worstTenMinutes": score.worst,
        "late": score.late,
        "lateAtZero": score.late_at_zero,
        "waiting": one.run.waiting.len(),
        "waitSeconds": {
            "p50": score.p50.as_secs_f64(),
            "p95": score.p95.as_secs_f64(),
            "p99": score.p99.as_secs_f64(),
            "longest": score.longest.as_secs_f64(),
        },
        "gpuSeconds": score.gpu_seconds,
        "nodeSecondsWithoutReplica": one.run.node_time.as_secs_f64(),
        "spotGpuSeconds": one.run.spot_time.as_secs_f64(),
        "idleShare": score.idle,
        "cost": one.cost,
        "starts": score.starts,
        "failedStarts": one.run.failed_starts,
        "spotGpusTaken": one.run.reclaimed,
        "peak": score.peak,
    })
}
