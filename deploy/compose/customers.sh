# Places orders at $SHOP until it is stopped. Each customer clicks three times, with one key, and gets one order.
n=0
while :; do
  n=$((n + 1))
  for click in 1 2 3; do
    curl -s -o /dev/null --max-time 30 -H "Idempotency-Key: $n" -d "{\"item\":\"item-$((n % 3 + 1))\"}" "$SHOP/users/user-$n/orders" &
  done
  if [ $((n % 5)) -eq 0 ]; then
    wait
    sleep 0.5
  fi
done
