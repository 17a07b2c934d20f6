domain=$NAMESPACE.svc.cluster.local
peers=$(nslookup "peers.$domain" 2>&1 | sed -n '/^Name:/,$s/^Address.*: //p')
[ -n "$peers" ] || { echo "DNS does not resolve peers.$domain"; exit 1; }
set -- $peers
[ $# -ge "$PODS" ] || { echo "DNS names $# of $PODS pods: the others have no address"; exit 1; }
timeout 3 wget -q -O /dev/null "http://probe.$domain/" || { echo "the Service probe does not respond"; exit 1; }
for peer; do
  case $peer in *:*) peer="[$peer]" ;; esac
  timeout 3 wget -q -O /dev/null "http://$peer:8080/" || { echo "the pod $peer does not respond: no pod network between the nodes"; exit 1; }
done
[ -z "$VOLUME" ] || echo ok >"/$VOLUME/written" || { echo "the volume cannot be written"; exit 1; }
