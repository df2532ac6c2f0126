module weir.dev/tests/kubernetes/bed/pause

go 1.26.0

tool weir.dev/tests/kubernetes/bed/pause
