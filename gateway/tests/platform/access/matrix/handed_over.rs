//! The matrix through two gateways that hand requests over to each other, while their certificates rotate.

use weir_access::IssuerSettings;

use super::super::peers::rotation::Rotating;
use super::*;

/// Adds a gateway with the keys and rules of the matrix.
async fn add(world: &mut World, number: usize, rotating: &Rotating, issuer: &IssuerSettings) {
    let access = AccessControl::new(matrix_policy());
    access.trust(std::slice::from_ref(issuer)).unwrap();
    let fetching = Arc::clone(&access);
    tokio::spawn(async move { fetching.fetch_keys().await });
    let mut options = Options::new(&format!("gateway-{number}"), Scope::Local);
    options.access = Some(access);
    options.peers = Some(Arc::clone(&rotating.tls[number]));
    world.add(options).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_cell_is_the_same_through_each_gateway_while_certificates_rotate() {
    let (rotating, signer) = (Rotating::start(2), Signer::new("k1"));
    let keys = signer.serve().await;
    let issuer = tokens::issuer(&keys);
    let mut world = World::new(0).await;
    for number in [0, 1] {
        add(&mut world, number, &rotating, &issuer).await;
    }
    let replica = TestReplica::start(Behaviour::Mirror).await;
    world
        .serve_limited(&[100], Some(1), |route| {
            route.control = ControlRoutes::Open;
            let host = Host::parse(TAG_HOST).unwrap();
            route.tags = vec![Tagged { tag: Tag::new("blue").unwrap(), hosts: vec![host], revision: revision(1) }];
        })
        .await;
    world.put(1, "a", replica.address).await;
    let (mut served, began) = (0, rotating.rotations());
    for cell in cells("digits") {
        for credential in CREDENTIALS {
            let (text, expected) = (credential.text(&signer), credential.expected(&cell.needed()));
            for gateway in &world.gateways {
                let found = cell.sent_to(gateway.address, text.as_deref()).await;
                assert_eq!(found.0, expected, "{cell:?} {credential:?}: {}", found.1);
                served += usize::from(expected == 200);
            }
        }
    }
    assert!(replica.requests() >= served && served > 200, "{served}");
    assert!(rotating.rotations() > began + 5);
}
