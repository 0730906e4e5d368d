/**
 * Words that API paths consist of. Path segments made of such words name a kind of thing; other segments may be user input: a title, a
 * phrase, a password.
 */

import { wordSet } from "./secret-names.ts";

const apiWords = wordSet(`
  a about accept access account accounts action actions activate activation active activity ad add address addresses admin ads after agent agents
  agreement alert alerts alias aliases all and announcement annotation annotations any api apis app application applications apply approval approve
  apps archive are area article articles as asset assets assign at attach attachment attachments attempt attribute attributes audit auth
  authenticate authorization authorize auto availability available avatar avatars back background backup backups badge balance balances
  bank banner base basket batch be before begin best bid bids bill billing bills block blocks blog board boards body book booking bookings bot bots branch branches brand
  brands browse bucket buckets budget bug build builds bulk bundle business buy by bypass cache calendar call callback calls campaign campaigns can
  cancel cancellation card cards cart carts catalog categories category change changes channel channels charge charges chart charts chat check
  checkout checks child children city claim claims class classes clean cleanup clear click clicks client clients clone close cluster clusters
  code codes collect collection collections color column columns command commands comment comments commit commits common company compare complete
  component components compute condition conditions config configs configuration confirm confirmation connect connection connections console contact
  contacts container containers content contents context contract contracts control convert cookie cookies copy core count countries country coupon
  coupons course courses create created creation credential credentials credit cron csv currency current custom customer customers daily dashboard
  dashboards data database databases dataset date dates day days de deactivate debit debug decline default definition definitions del delete deliver deliveries
  delivery demo department deploy deployment deployments deposit deposits der des description design desktop detail details device devices devops diagnostics
  directory disable discount discounts discover discovery dispute docs document documentation documents domain domains done down download downloads draft
  drafts driver drivers drop due duplicate edit editor el email emails embed employee employees en enable end endpoint endpoints engine enroll enrollment entities entity
  entries entry environment environments error errors estimate et event events example exchange execute execution executions existing exists expense expenses
  experiment experiments explore export exports extend extension extensions external facet facets fail failed failure favorite favorites feature
  features fee feed feedback fees fetch field fields file files filter filters finance find finish first flag flags flow flows folder folders
  follow follower followers following for forecast forgot form format forms forum free friend friends from front full function functions fund funds game games gateway
  general generate get gift global go graph graphql group groups guest guide guides handle handler hash head header headers health heartbeat help het
  hidden hide history home hook hooks host hosts hotel hour hours how html http id identifier identities identity ids image images import imports
  in inbox incident incidents index indexes info information ingest init initiate insert insight insights install instance instances instrument insurance integration
  integrations interest internal inventory invitation invitations invite invites invoice invoices is issue issues item items job jobs join journal js json jwks
  keep key keys keyword keywords kind la label labels language languages last latest launch layout lead leads leave ledger legal les level
  library license licenses like likes limit limits line lines link links list listing listings lists live load local location locations lock log login logo
  logout logs lookup machine mail mailbox main maintenance manage management manager manifest manual map maps mark market marketing match matches me media
  meeting meetings member members membership memberships memory menu merchant merge message messages meta metadata method methods metric metrics migrate migration
  mobile mode model models module modules monitor monitoring month monthly more move my name names namespace namespaces navigation network new news newsletter next no node
  nodes note notes notification notifications now number oauth object objects of off offer offers office offline offset old on onboarding one online open
  operation operations operator opt option options or order orders organization organizations origin other our out outbox output overview owner owners package
  packages page pages parent part participant partner partners parts password passwords path paths patient pause pay payment payments payout payouts payroll pdf
  pending people per period permission permissions person personal phone photo photos pick ping pipeline pipelines place plan plans play player players
  plugin plugins png pod pods point points policies policy poll pool popular portal position positions post posts pre preference preferences prepare
  preview previous price prices pricing primary print priority privacy private process processes product production products profile profiles program project
  projects promo promotion promotions properties property proposal provider providers proxy public publish pull purchase purchases purge push put queries query question questions
  queue queues quick quote quotes random range rate rates rating ratings raw read ready real realm rebuild receipt receipts receive received recent recommend recommendation
  recommendations record records recover recovery redirect redirects redis refer reference references referral referrals refresh refund refunds region regions register registration
  registry reject related release releases remote remove rename renew renewal reorder replace replay reply report reports repositories repository request requests
  require required resend reservation reservations reset resource resources response responses rest restart restaurant restore result results resume retry return returns
  reverse review reviews revoke role roles room rooms root rotate route routes row rows rpc rule rules run runs runtime sale sales sandbox save saved
  scan schedule scheduled schedules schema schemas score search secret secrets section sections secure security segment segments select self send sent
  sequence series server servers service services session sessions set setting settings setup share shared shares ship shipment shipments shipping shop shopping show
  sign signature signatures signin signout signup simple single site sitemap sites size skill skip sku slot slots snapshot snapshots social software source sources spec special split sql
  sso staff stage standard start started stat state statement statements states static statistics stats status statuses step steps stock stop storage store stores
  story stream streams strength string style submission submissions submit subscribe subscriber subscribers subscription subscriptions success suggest suggestion suggestions summary supplier
  suppliers support survey surveys suspend swagger switch sync system systems tab table tables tag tags target task tasks tax taxes team teams template templates
  tenant tenants term terms test tests text the theme themes thread threads thumbnail ticket tickets time timeline timeout timer times title to today token tokens
  tool tools top topic topics total totals trace traces track tracking trade trades traffic train training transaction transactions transcript transfer transfers translate translation
  translations transport trash travel trend trends trial trigger triggers trip trips trust tutorial txt type types un unblock und under undo unfollow unit units unlink unlock
  unread unregister unsubscribe up update updated updates upgrade upload uploads upsert url urls us usage use used user username users using utils
  validate validation value values van variable variables variant variants vehicle vehicles vendor vendors verification verify version versions video videos view viewer views
  visit visitor volume volumes von vote votes voucher vouchers wait wallet wallets warehouse watch watchlist web webhook webhooks website week weekly welcome what
  widget widgets window with withdraw withdrawal withdrawals work worker workers workflow workflows workspace workspaces wp write xml year yearly you your zip zone zones
`);

/** Splits a name in any style into words: `reset-password`, `resetPassword`, `reset_password`. */
export function pathWords(text: string): string[] {
  return text.split(/[-_.~+ :!]+|(?<=[a-z])(?=[A-Z])/).filter((word) => word !== "");
}

/** Number of these words that are API words. */
export function countApiWords(words: readonly string[]): number {
  return words.reduce((count, word) => (apiWords.has(word.toLowerCase()) ? count + 1 : count), 0);
}
