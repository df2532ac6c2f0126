# Creates the identities of a cluster: keys, certificates and kubeconfigs under $state, valid for a month; to be
# sourced.

authority() {
    mkdir -p -m 700 "$state/pki"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 30 -subj /CN=cluster \
        -keyout "$state/pki/ca.key" -out "$state/pki/ca.crt" 2>/dev/null
    # Keys that sign the tokens of service accounts.
    openssl ecparam -name prime256v1 -genkey -noout -out "$state/pki/tokens.key"
    openssl ec -in "$state/pki/tokens.key" -pubout -out "$state/pki/tokens.pub" 2>/dev/null
}

identity() { # identity NAME SUBJECT [ALTERNATIVE-NAMES]: creates a certificate for servers and clients
    local base=$state/pki/$1
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "$2" -keyout "$base.key" -out "$base.csr" 2>/dev/null
    openssl x509 -req -in "$base.csr" -CA "$state/pki/ca.crt" -CAkey "$state/pki/ca.key" -CAcreateserial -days 30 -out "$base.crt" \
        -extfile <(printf 'extendedKeyUsage=clientAuth,serverAuth\nsubjectAltName=%s' "${3:-DNS:$1}") 2>/dev/null
}

kubeconfig() { # kubeconfig NAME SERVER: writes a kubeconfig of the identity that includes its key and certificates
    inline() { base64 -w 0 "$state/pki/$1"; }
    cat >"$state/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
current-context: weir
contexts: [{name: weir, context: {cluster: weir, user: $1}}]
clusters: [{name: weir, cluster: {server: "$2", certificate-authority-data: $(inline ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(inline "$1.crt"), client-key-data: $(inline "$1.key")}}]
YAML
}
